/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a filesystem before it is mounted, when its superblock asks for that. */
#pragma once

#include "node/node.h"
#include "node/mount/fsprobe.h"

struct check_request {
	const char *volume_id;
	const struct device *dev;
	int fd; /* open on it */
	const struct fsprobe *fs;
	bool read_only;         /* then it is never checked */
	uint64_t diskseq;       /* as in format.h, for the record */
	const char *attachment; /* likewise */
};

/*
 * 0: it may be mounted. FAILED_PRECONDITION: the filesystem is damaged (the text says what to do)
 * or in use, and stays as it is. The deadline ends the wait, not the e2fsck, which keeps running as
 * the volume's job (job.h). One that was interrupted is begun anew and looks at everything. The
 * caller has joined an earlier job of the volume.
 */
int check_filesystem(struct node *n, const struct check_request *r, struct deadline d,
                     struct err *err) MUST_CHECK;
