/* SPDX-License-Identifier: Apache-2.0 */
/* Is a staged disk still the one that the publish context names? Private to publish.c; no state. */
#pragma once

#include "node/stage/publish.h"
#include "node/target/mountpoint.h"

/*
 * `staged` is MOUNTPOINT_FILESYSTEM or MOUNTPOINT_BLOCK. FAILED_PRECONDITION: another disk is
 * staged. UNAVAILABLE: its disk was removed, or the wanted one is missing. *ret: the disk.
 */
int publish_check_disk(const struct node *n, const struct publish_request *r,
                       const struct mountpoint *staged, struct device *ret, struct err *err)
	MUST_CHECK;
