/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage in progress: what staging a disk (stage_disk.h), staging a share (stage_share.h) and
 * their caller (stage.c) have in common. Private to these files. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/gate/gatekeeper.h"
#include "node/mount/mount.h"
#include "node/node.h"
#include "node/target/mountpoint.h"
#include "node/target/target.h"
#include "volume/volume_cap.h"
#include "volume/volume_params.h"

struct stage_request {
	const char *volume_id;
	const char *staging_path;
	struct volume_cap cap;
	struct volume_params params;
	struct device_want want;
	const char *attachment; /* UID of the volume's attachment; "" or NULL: unknown */
	/*
	 * The option by which a person says what formatPolicy says elsewhere, for errors; NULL: a
	 * StorageClass says it.
	 */
	const char *format_option;
};

/* One stage in progress, and what it has to undo. */
struct staging {
	struct node *node;
	const struct stage_request *r;
	struct device dev; /* what device_wait() has found */
	char *asked;       /* where the mount goes, as the request has it */
	char *path;        /* the same as mountinfo has it, once it was made */
	enum target_kind kind;
	struct strs flags; /* of the mount, one each */
	bool read_only;
	unsigned made; /* levels of `asked` that were made */
	bool mounted;
	struct gate_pass pass; /* unless check_only */
	/* The gate is closed: the call only checks whether the volume is staged. */
	bool check_only;
	/* Of stage_disk() alone. */
	int fd; /* of the disk, open while it works; -1 */
	uint64_t diskseq;
	bool set_ro, was_ro; /* BLKROSET was used; the state before */
	/*
	 * Of stage_share() alone, as it was before device_wait(): the tag could not be mounted; the
	 * device was present, and nothing proves its tag, so the tag was not probed.
	 */
	bool tag_was_absent, was_present;
};

/* Makes the mount point, with the directories above it, and learns its name in mountinfo. */
int staging_make_point(struct staging *s, struct err *err) MUST_CHECK;
/* -1 UNAVAILABLE: the volume is not staged, and the gate is closed. */
int staging_check_gate(const struct staging *s, struct err *err) MUST_CHECK;
/* Takes away the mount and what staging_make_point() has made. */
void staging_undo(struct staging *s);
/* Is it a code after which the caller tries again, or unstages? The driver may stay bound then. */
bool staging_is_retried(enum err_code code);
