/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is at a staging path already, compared with what a stage call wants there: what a disk and
 * its caller have in common; staged_disk.h compares. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/mount/mount.h"
#include "node/mount/mount_same.h"
#include "node/staged/staging.h"
#include "node/target/mountpoint.h"

/* What a stage call wants. Everything is borrowed. */
struct staged_want {
	struct node *node;
	const struct stage_request *r;
	const struct device *dev; /* the volume's; a disk is held open by the caller */
	const struct strs *flags; /* of the mount, one each */
	bool read_only;
	const struct mount_table *mounts;
	/* Of a disk alone. */
	struct deadline deadline;
	uint64_t diskseq; /* of the descriptor that holds it; 0: unknown */
	bool no_replay;   /* the mount may have a flag that keeps its journal from being replayed */
};

enum { STAGED_ABSENT = 1 };
/* FAILED_PRECONDITION: the mountpoint shows something else than the volume's device, `wanted`. */
int staged_refuse_foreign(const struct staged_want *w, const struct mountpoint *p,
                          const char *wanted, struct err *err) MUST_CHECK;
/* Adds "device 259:3 (/dev/nvme0n1 of function 0000:26:00.1)". */
void staged_describe_disk(const struct node *n, dev_t disk, struct str *text);
/*
 * ALREADY_EXISTS: the mountpoint is read-only, and the volume is wanted read-write, or vice versa.
 */
int staged_check_read_only(const struct staged_want *w, const struct mountpoint *p, struct err *err)
	MUST_CHECK;
/* ALREADY_EXISTS when the mount has other flags than `asked`: a pod would run without its own. */
int staged_check_flags(const struct mount_asked *asked, const struct mountpoint *p, struct err *err)
	MUST_CHECK;
/*
 * FAILED_PRECONDITION when `options` has context= and the mount has not: libmount drops it where it
 * sees no SELinux, and a pod that counts on it must not start without.
 */
int staged_check_context(const struct strs *options, const struct mount *m, struct err *err)
	MUST_CHECK;
