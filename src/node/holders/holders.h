/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the other processes that have a volume open. Only processes of this PID namespace are
 * visible (with hostPID, all processes of the host), and only those that this process may trace can
 * be scanned: their open files, working directory, root directory and executable, and the mounts in
 * their mount namespaces.
 *
 * A process that ends during the scan is not a holder. The scan opens no file and queries no file
 * server (AT_STATX_DONT_SYNC), so an unrelated filesystem that hangs does not block it. A scan that
 * only names holders is limited in time, processes and descriptors. A scan for writers is limited
 * only by the deadline, because callers rely on its result. Any thread, no state.
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
	dev_t disk;     /* device number of the whole disk; its partitions are included */
	bool character; /* `disk` is the number of a character device */
	dev_t fs;       /* device number of the volume's filesystem in mountinfo; 0: none */
	int mount_id;   /* only files that were opened through this mount (mountinfo ID); 0: any */
	bool mounts;    /* also search for mounts in other mount namespaces */
	/*
	 * captured: find only mounts in other mount namespaces that certainly outlive an unmount in
	 * this one, because nothing propagates to their parent. unshared: no unmount propagates
	 * from this namespace at all.
	 */
	bool captured, unshared;
	/*
	 * only search for processes that have the block device open for writing; implies
	 * `exhaustive`
	 */
	bool writers;
	/* no limit except the deadline, because the caller relies on "no holder" */
	bool exhaustive;
	/*
	 * Limits of a scan that is not exhaustive: time in ms, number of descriptors. 0:
	 * HOLDERS_MS, HOLDERS_FILES.
	 */
	int64_t ms, files;
};

struct holders {
	struct strs first;  /* descriptions of the first three: "pid 12 (dd) has /data/f open" */
	unsigned n;         /* number of holders, excluding this process */
	bool ourselves;     /* this process is a holder */
	bool device_open;   /* a process has the device open, for reading or writing */
	unsigned processes; /* processes scanned */
	unsigned tables;    /* descriptor tables read */
	unsigned files;     /* descriptors checked */
	bool everybody;     /* all processes of this host are visible */
	bool cut;           /* the scan stopped at one of its limits */
	/* the first process that could not be scanned, and the reason; "": none */
	char unseen[120];
};

/* Returns true if every visible process was scanned. Otherwise n == 0 does not mean "no holder". */
static inline bool holders_saw_all(const struct holders *h)
{
	return !h->cut && !*h->unseen;
}

void holders_find(const struct holders_query *q, struct deadline d, struct holders *ret);
/*
 * Adds to `text` "pid 12 (dd) has /data/f open and 2 more; end them ...", or why no holder can be
 * named and where to search; `device` is "/dev/nvme0n1".
 */
void holders_describe(const struct holders *h, const struct holders_query *q, const char *device,
                      struct str *text);
void holders_clear(struct holders *h);
DEFINE_AUTO_VALUE(struct holders, holders_clear);
