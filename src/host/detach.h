/* SPDX-License-Identifier: Apache-2.0 */
/* host detach. No state, any thread. */
#pragma once

#include "common/deadline.h"
#include "host/args.h"

/*
 * 0: the volume is not attached to this host (any more), and `said` says so. -1
 * FAILED_PRECONDITION: somebody holds it, and the text names who; or something else is mounted in
 * its place, which is left alone. `host watch` does not attach it again (manual_detach.h).
 */
int host_detach(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * For `host watch`: the same until the deadline, of what this very attachment has attached. Nothing
 * happens, which is 0, when the volume is not attached, or by another attachment. Ends a hold of
 * the attachment when it has `gone`.
 */
int host_detach_attachment(const struct host_args *a, const char *volume, const char *uid,
                           bool gone, struct deadline d, struct err *err) MUST_CHECK;
