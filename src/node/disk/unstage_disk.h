/* SPDX-License-Identifier: Apache-2.0 */
/* Unstages a disk that is mounted, or bound as raw block. Private to unstage.c; no state. */
#pragma once

#include "common/deadline.h"
#include "node/staged/unstaging.h"

/* Unstages the disk at u->mountpoint, which is MOUNTPOINT_FILESYSTEM or MOUNTPOINT_BLOCK. */
int unstage_disk(struct unstaging *u, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Completes the unstage of a volume that is no longer mounted. A tool of an earlier driver process
 * may still work on the disk, or an earlier call may have unmounted the disk while another process
 * held it. Waits until the tool has ended and the disk is free. Returns 0 if the disk has no holder
 * any more.
 */
int unstage_disk_finish(struct unstaging *u, struct deadline d, struct err *err) MUST_CHECK;
