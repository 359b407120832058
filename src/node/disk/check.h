/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a filesystem before it is mounted, if its superblock requests a check. */
#pragma once

#include "node/node.h"
#include "node/mount/fsprobe.h"

struct check_request {
	const char *volume_id;
	const struct device *dev;
	int fd; /* open on the device */
	const struct fsprobe *fs;
	bool read_only;         /* if true, the filesystem is never checked */
	uint64_t diskseq;       /* as in format.h, for the record */
	const char *attachment; /* as in format.h, for the record */
};

/*
 * Checks the filesystem if its superblock requests it. Returns 0 if it may be mounted.
 * FAILED_PRECONDITION: it is damaged or in use, and stays unchanged; for damage, the message has
 * the next step. The deadline ends the wait, not the e2fsck, which keeps running as the volume's
 * job (job.h). After an interrupted e2fsck, the whole filesystem is checked. The caller must have
 * joined any earlier job of the volume.
 */
int check_filesystem(struct node *n, const struct check_request *r, struct deadline d,
                     struct err *err) MUST_CHECK;
