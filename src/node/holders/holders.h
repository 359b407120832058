/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which other processes have a volume open? Only processes of this PID namespace are visible (with
 * hostPID all of the host's), and of those the ones that this process may trace: their open files,
 * working directory, root and program, and the mounts in their mount namespaces.
 *
 * A process that ends meanwhile is no holder. No file is opened and no file server is asked
 * (AT_STATX_DONT_SYNC), so another filesystem that hangs does not block this. A scan that only
 * names holders is bounded in time, processes and descriptors; one for writers, by which somebody
 * wants to know, by the deadline alone. Any thread, no state.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/str.h"

#define HOLDERS_MS 2000
#define HOLDERS_FILES (256 * 1024)

struct holders_query {
	const char *proc_root;
	dev_t disk;   /* number of the whole disk, whose partitions count as well */
	dev_t fs;     /* number that mountinfo has for its filesystem; 0: none */
	int mount_id; /* only files that were opened through this mount; 0: any */
	bool mounts;  /* look for mounts in other mount namespaces, too */
	/*
	 * Only mounts in other mount namespaces that an unmount here certainly does not take away:
	 * nothing propagates to what they hang on. `unshared`: nothing propagates from here at all.
	 */
	bool captured, unshared;
	bool writers; /* only processes that have the block device open for writing; exhaustive */
	bool exhaustive; /* no limit but the deadline: the caller acts on "no holder" */
	/* Limits of a scan that is not exhaustive. 0: HOLDERS_MS, HOLDERS_FILES. */
	int64_t ms, files;
};

struct holders {
	struct strs first;  /* the first three, in words: "pid 12 (dd) has /data/f open" */
	unsigned n;         /* how many there are, without this process */
	bool ourselves;     /* this process holds it */
	bool device_open;   /* a process has the device open, to read or to write */
	unsigned processes; /* how many were looked at */
	unsigned tables;    /* how many tables of descriptors were read */
	unsigned files;     /* how many descriptors were looked at */
	bool everybody;     /* all processes of this host are visible */
	bool cut;           /* the walk stopped at one of its limits */
	char unseen[120];   /* the first process that could not be looked at, and why; "": none */
};

/* Was every visible process looked at? Else n == 0 does not mean "nobody". */
static inline bool holders_saw_all(const struct holders *h)
{
	return !h->cut && !*h->unseen;
}

void holders_find(const struct holders_query *q, struct deadline d, struct holders *ret);
/*
 * Adds to `text` "pid 12 (dd) has /data/f open and 2 more; end them ...", or why nobody is named
 * and where to look; `device` is "/dev/nvme0n1".
 */
void holders_describe(const struct holders *h, const struct holders_query *q, const char *device,
                      struct str *text);
void holders_clear(struct holders *h);
DEFINE_AUTO_VALUE(struct holders, holders_clear);
