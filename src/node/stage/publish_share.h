/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a staged share still the one that the publish context names? Private to publish.c; no state.
 */
#pragma once

#include "node/stage/publish.h"
#include "node/target/mountpoint.h"

/*
 * `staged` is MOUNTPOINT_SHARE. FAILED_PRECONDITION: another tag is staged. UNAVAILABLE: its device
 * has gone, or it hangs.
 */
int publish_check_share(const struct node *n, const struct publish_request *r,
                        const struct mountpoint *staged, struct err *err) MUST_CHECK;
