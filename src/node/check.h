/* SPDX-License-Identifier: Apache-2.0 */
/* From a filesystem that was found to one that may be mounted: checked when it asks for it. */
#pragma once

#include "node/node.h"
#include "node/mount/fsprobe.h"

/*
 * fd is open on the device, which `fs` was found on. A read-only volume is never checked.
 * FAILED_PRECONDITION: it is damaged (the text says how to go on), or in use; the filesystem stays
 * as it is. The deadline ends the wait, never an e2fsck that runs: it goes on as the volume's job
 * (job.h), which the caller has joined before it calls this.
 */
int check_filesystem(struct node *n, const char *volume_id, const struct device *dev, int fd,
                     const struct fsprobe *fs, bool read_only, struct deadline d, struct err *err)
	MUST_CHECK;
