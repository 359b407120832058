/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a device to a filesystem that may be mounted, or a refusal: the only place that ever lets
 * mkfs run.
 */
#pragma once

#include <stdbool.h>

#include "node/node.h"
#include "node/mount/fsprobe.h"

struct format_request {
	const char *volume_id;
	const struct device *dev;
	int fd;              /* open on it for reading */
	const char *fs_type; /* "" : whatever is there; ext4 when nothing is */
	const struct volume_params *params;
	bool read_only;   /* never formats */
	uint64_t diskseq; /* of fd: which disk this is until the next boot; 0: this kernel has none
	                   */
};

/*
 * *ret: the filesystem that is there now, complete. FAILED_PRECONDITION
 * with what was found where when it is something else or data without a signature; UNAVAILABLE when
 * it cannot be read. The deadline ends the wait, never an mkfs that runs: it goes on as the
 * volume's job (job.h), which the caller has joined before it calls this.
 */
int format_ensure(struct node *n, const struct format_request *r, struct deadline d,
                  struct fsprobe *ret, struct err *err) MUST_CHECK;
/* <plugin dir>/formatting/<hash of the volume id>, malloc'ed. */
char *format_record_path(const struct node *n, const char *volume_id);
/* What a record says of the time that it was written in, malloc'ed. */
char *format_boot_id(const struct node *n);
