/* SPDX-License-Identifier: Apache-2.0 */
/* Is the volume's share staged already, and as it is wanted? No state, any thread. */
#pragma once

#include "node/staged/staged.h"

/*
 * 0: the volume is staged as wanted. STAGED_ABSENT: nothing is there; a mount whose device has gone
 * was taken away. -1: FAILED_PRECONDITION something else is there; ALREADY_EXISTS the share is
 * staged in another way; UNAVAILABLE it may be staged, but that cannot be looked at now.
 */
int staged_share_check(const struct staged_want *w, struct err *err) MUST_CHECK;
/*
 * FAILED_PRECONDITION: the staged share is not the one that the tag leads to now.
 */
int staged_share_check_same(const struct staged_want *w, const struct mountpoint *p,
                            struct err *err) MUST_CHECK;
