/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a filesystem before it is mounted, when its superblock asks for that. */
#pragma once

#include "node/node.h"
#include "node/mount/fsprobe.h"

/*
 * `fd` is open on `dev`, on which `fs` was found. 0: it may be mounted. A read-only volume is never
 * checked. FAILED_PRECONDITION: the filesystem is damaged (the text says what to do) or in use, and
 * stays as it is. The deadline ends the wait, not the e2fsck, which keeps running as the volume's
 * job (job.h). The caller has joined an earlier job of the volume.
 */
int check_filesystem(struct node *n, const char *volume_id, const struct device *dev, int fd,
                     const struct fsprobe *fs, bool read_only, struct deadline d, struct err *err)
	MUST_CHECK;
