/* SPDX-License-Identifier: Apache-2.0 */
/* Unstages a disk, mounted or bound as raw block. Private to unstage.c; no state. */
#pragma once

#include "common/deadline.h"
#include "node/staged/unstaging.h"

/* u->mountpoint is MOUNTPOINT_FILESYSTEM or MOUNTPOINT_BLOCK. */
int unstage_disk(struct unstaging *u, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Nothing is staged. A tool of an earlier driver may still work on the disk, or an earlier call may
 * have unmounted it while somebody else held it: that is waited for. 0: nobody holds it any more.
 */
int unstage_disk_finish(struct unstaging *u, struct deadline d, struct err *err) MUST_CHECK;
