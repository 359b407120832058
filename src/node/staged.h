/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is at a staging path already, compared with what a stage call wants there. No state, any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/mount/mount.h"
#include "node/node.h"
#include "node/place.h"

/* What a stage call wants. Everything is borrowed. */
struct staged_want {
	struct node *node;
	const struct stage_request *r;
	const struct device *dev; /* the volume's, which the caller holds open */
	uint64_t diskseq;         /* of that descriptor; 0: unknown */
	const struct strs *flags; /* of the mount, one each */
	bool read_only;
	bool no_replay; /* the mount may have a flag that keeps its journal from being replayed */
	const struct place *seen; /* what was just seen at the staging path; NULL: not looked at */
};

enum { STAGED_ABSENT = 1 };
/*
 * 0: the volume is staged as wanted. STAGED_ABSENT: nothing is there; a mount of a disk that has
 * gone was taken away. -1: FAILED_PRECONDITION something else is there; ALREADY_EXISTS the volume
 * is staged in another way; UNAVAILABLE it may be staged, but that cannot be looked at now.
 */
int staged_look(const struct staged_want *w, struct err *err) MUST_CHECK;
/*
 * The volume's device number is bound at `path`: is it this very disk (numbers are reused), and
 * read-only as wanted? Else FAILED_PRECONDITION or ALREADY_EXISTS.
 */
int staged_check_block(const struct staged_want *w, const char *path, struct err *err) MUST_CHECK;
/*
 * FAILED_PRECONDITION when `options` has context= and the mount has not: libmount drops it where it
 * sees no SELinux, and a pod that counts on it must not start without.
 */
int staged_check_context(const struct strs *options, const struct mount *m, struct err *err)
	MUST_CHECK;
