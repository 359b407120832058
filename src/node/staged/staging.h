/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage in progress: the state shared by stage_disk.h, stage_share.h and their caller (stage.c).
 * Private to these files. No global state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/secret.h"
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
	/*
	 * staging_path is already resolved (paths_resolve()), so any link in it now was created
	 * later.
	 */
	bool resolved;
	struct volume_cap cap;
	struct volume_params params;
	struct device_want want;
	const char *attachment; /* UID of the volume's attachment; "" or NULL: unknown */
	/* the attachment's creationTimestamp; "" or NULL: unknown */
	const char *attachment_created;
	/* the only node that may create a container for several nodes; NULL: none */
	const char *format_node;
	/*
	 * For errors: the command-line option that replaces formatPolicy; NULL: the policy is from
	 * a StorageClass.
	 */
	const char *format_option;
	/* The passphrases of an encrypted volume; NULL: another volume. */
	const struct passphrases *keys;
};

/* One stage in progress, and its changes that may have to be undone. */
struct staging {
	struct node *node;
	const struct stage_request *r;
	struct device dev;          /* from device_wait() */
	char *path;                 /* the resolved mount point */
	struct mount_target target; /* `path`, opened by staging_make_point() */
	enum target_kind kind;
	struct strs flags; /* mount flags, one per element */
	bool read_only;
	unsigned made; /* number of directory levels that staging_make_point() created */
	bool mounted;
	struct gate_pass pass; /* not set if check_only */
	/* The gate is closed, so the call only checks whether the volume is already staged. */
	bool check_only;
	/* Only for stage_disk(). */
	int fd; /* descriptor of the disk, open during the stage; -1: none */
	uint64_t diskseq;
	/*
	 * An encrypted volume while its container is open: then `dev`, `fd` and `diskseq` are those
	 * of the mapping, and these are those of the disk. disk_fd -1: they are not in use.
	 */
	struct device disk;
	int disk_fd;
	uint64_t disk_diskseq;
	bool set_ro, was_ro; /* set_ro: BLKROSET was called; was_ro: the state before */
	/*
	 * Only for stage_share(): the state before device_wait(). tag_was_absent: the tag could not
	 * be mounted. was_present: the device was present but its tag unproven, so the tag was not
	 * probed.
	 */
	bool tag_was_absent, was_present;
};

/* Sets s->path. Errors are those of paths_resolve(). */
int staging_find_path(struct staging *s, struct err *err) MUST_CHECK;
/* Creates the mount point and its missing parent directories, and opens it. */
int staging_make_point(struct staging *s, struct err *err) MUST_CHECK;
/* To be called if the volume is not staged. Returns -1 (UNAVAILABLE) if the gate is closed. */
int staging_check_gate(const struct staging *s, struct err *err) MUST_CHECK;
/* Removes the mount and all that staging_make_point() has created. */
void staging_undo(struct staging *s);
/*
 * Returns true for codes after which the caller retries or unstages, so the function may stay bound
 * to its driver.
 */
bool staging_is_retried(enum err_code code);
