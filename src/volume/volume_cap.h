/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A volume capability (CSI specification, VolumeCapability) as a plain struct, checked once at
 * the door (volume_cap_csi.h) and used by both services.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "volume/volume_params.h"

enum access_type { ACCESS_MOUNT, ACCESS_BLOCK };

/* CSI's numbers. */
enum access_mode {
	MODE_SINGLE_NODE_WRITER = 1,
	MODE_SINGLE_NODE_READER_ONLY = 2,
	MODE_MULTI_NODE_READER_ONLY = 3,
	MODE_MULTI_NODE_SINGLE_WRITER = 4,
	MODE_MULTI_NODE_MULTI_WRITER = 5,
	MODE_SINGLE_NODE_SINGLE_WRITER = 6,
	MODE_SINGLE_NODE_MULTI_WRITER = 7,
};

struct volume_cap {
	enum access_type type;
	enum access_mode mode;
	const char *fs_type;            /* "" when not said; never for block */
	const char *const *mount_flags; /* n_mount_flags of them */
	size_t n_mount_flags;
	const char *mount_group; /* volume_mount_group, "" when not said */
};

bool access_mode_is_reader_only(enum access_mode mode);
/* More than one node may have it at once. */
bool access_mode_is_multi_node(enum access_mode mode);
/* Exactly one pod (target path) at a time: SINGLE_NODE_SINGLE_WRITER. */
bool access_mode_is_single_pod(enum access_mode mode);
/* "SINGLE_NODE_WRITER" */
const char *access_mode_name(enum access_mode mode);
/* What the DPUVolume CRD knows: ReadWriteOnce, ReadOnlyMany or ReadWriteMany. */
const char *access_mode_cr_name(enum access_mode mode);
const char *access_type_name(enum access_type type); /* "mount", "block" */
/*
 * Filesystems this driver makes and mounts: ext4 (also for ""), ext3, xfs, btrfs. Returns the name
 * to use, or NULL.
 */
const char *filesystem_normalise(const char *fs_type);
/*
 * Can a volume of this kind be used so? The text names `field`, and what to write instead.
 *
 * NVMe: INVALID_ARGUMENT for an unknown access mode, an unknown filesystem, and a filesystem that
 * one node writes while others have it. Raw block volumes may have every mode.
 *
 * virtio-fs: INVALID_ARGUMENT for an unknown access mode and for a filesystem that is neither
 * "virtiofs" nor what external-provisioner writes for no filesystem: "" or "ext4". UNIMPLEMENTED
 * for raw block. What is shared may be mounted with every mode.
 */
int volume_cap_check(const struct volume_cap *cap, enum emulation emulation, const char *field,
                     struct err *err) MUST_CHECK;
