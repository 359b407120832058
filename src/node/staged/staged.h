/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the mount at a staging path with a stage request. Contains only what staged_disk.h and
 * its caller share. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/mount/mount.h"
#include "node/mount/mount_same.h"
#include "node/staged/staging.h"
#include "node/target/mountpoint.h"

/* The request of a stage call. All pointers are borrowed. */
struct staged_want {
	struct node *node;
	const struct stage_request *r;
	const struct device *dev; /* the volume's device; if it is a disk, the caller has it open */
	const struct strs *flags; /* mount flags, one per element */
	bool read_only;
	const struct mount_table *mounts;
	/* The remaining fields are used only for disks. */
	struct deadline deadline;
	uint64_t diskseq; /* sequence number of the open disk; 0: unknown */
	bool no_replay;   /* the mount may have a flag that prevents journal replay */
};

enum { STAGED_ABSENT = 1 };
/*
 * Sets a FAILED_PRECONDITION error: the device at the mountpoint is not the volume's device, which
 * `wanted` names. Returns -1.
 */
int staged_refuse_foreign(const struct staged_want *w, const struct mountpoint *p,
                          const char *wanted, struct err *err) MUST_CHECK;
/* Appends a description of the disk, "device 259:3 (/dev/nvme0n1 of function 0000:26:00.1)". */
void staged_describe_disk(const struct node *n, dev_t disk, struct str *text);
/*
 * Compares read-only. ALREADY_EXISTS: the mountpoint is read-only and the request read-write, or
 * vice versa.
 */
int staged_check_read_only(const struct staged_want *w, const struct mountpoint *p, struct err *err)
	MUST_CHECK;
/*
 * Compares mount flags. ALREADY_EXISTS: those of the mount differ from `asked`, so a pod would run
 * without the flags that it requests.
 */
int staged_check_flags(const struct mount_asked *asked, const struct mountpoint *p, struct err *err)
	MUST_CHECK;
/*
 * Checks the SELinux context. FAILED_PRECONDITION: `options` has context=, but the mount does not.
 * libmount drops context= if it detects no SELinux, and a pod that relies on it must not start
 * without it.
 */
int staged_check_context(const struct strs *options, const struct mount *m, struct err *err)
	MUST_CHECK;
