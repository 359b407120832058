/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a volume open? Only what is visible is found: the processes of this PID namespace (with
 * hostPID all of the host's), by their open files, working directory, root and program, and mounts
 * in their mount namespaces.
 *
 * Processes come and go meanwhile: what cannot be read any more is no holder. No file is opened and
 * no file server is asked (AT_STATX_DONT_SYNC), so a hanging filesystem of somebody else holds up
 * nothing. Bounded in time, processes and descriptors. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/deadline.h"
#include "common/str.h"

struct holders_query {
	const char *proc_root;
	dev_t disk; /* as a block device, and of a filesystem on it */
	dev_t fs;   /* of its filesystem, as mountinfo has it (the files of a btrfs have others); 0:
	               none */
	int mount_id; /* only what was opened through this mount; 0: any */
	bool mounts;  /* in other mount namespaces, too */
	bool writers; /* only others than this process that have the block device open for writing
	               */
};

struct holders {
	struct strs first;  /* the first three, in words: "pid 12 (dd) has /data/f open" */
	unsigned n;         /* all */
	unsigned processes; /* that were looked at */
	bool everybody;     /* these were all that this host has */
	bool cut;           /* there were more than could be looked at */
};

void holders_find(const struct holders_query *q, struct deadline d, struct holders *ret);
/*
 * "held by ... and 2 more", or why nobody is named and where to look; `device` is "/dev/nvme0n1".
 */
void holders_say(const struct holders *h, const struct holders_query *q, const char *device,
                 struct str *text);
void holders_clear(struct holders *h);
static inline void holders_clear_p(struct holders *h)
{
	holders_clear(h);
}
