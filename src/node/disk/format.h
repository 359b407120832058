/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes sure that a device has a filesystem that may be mounted, or refuses. Nothing else runs
 * mkfs.
 */
#pragma once

#include <stdbool.h>

#include "node/node.h"
#include "node/mount/fsprobe.h"

struct format_request {
	const char *volume_id;
	const struct device *dev;
	int fd;              /* open on it for reading */
	const char *fs_type; /* "": any that is there, or a new ext4 */
	const struct volume_params *params;
	bool read_only;            /* then it is never formatted */
	uint64_t diskseq;          /* of fd: the disk's number until the next boot; 0: unknown */
	const char *attachment;    /* UID of the volume's attachment; "" or NULL: unknown */
	const char *format_option; /* struct stage_request */
};

/*
 * *ret: the complete filesystem that the device has now. FAILED_PRECONDITION: another filesystem,
 * or data without a signature; the text says what was found where. UNAVAILABLE: the device cannot
 * be read. The deadline ends the wait, not the mkfs, which keeps running as the volume's job
 * (job.h). The caller has joined an earlier job of the volume.
 */
int format_ensure(struct node *n, const struct format_request *r, struct deadline d,
                  struct fsprobe *ret, struct err *err) MUST_CHECK;
