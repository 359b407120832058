/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A volume capability (CSI specification, VolumeCapability) as a plain struct, checked once by the
 * RPC handlers (volume_cap_csi.h) and used by both services.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "volume/volume_params.h"

enum access_type { ACCESS_MOUNT, ACCESS_BLOCK };

/* Values as in CSI. */
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
	const char *fs_type;            /* "" if not given; always "" for block */
	const char *const *mount_flags; /* array of n_mount_flags strings */
	size_t n_mount_flags;
	const char *mount_group; /* volume_mount_group, "" if not given */
};

bool access_mode_is_reader_only(enum access_mode mode);
/* Returns true if more than one node may use the volume at the same time. */
bool access_mode_is_multi_node(enum access_mode mode);
/*
 * Returns true if exactly one pod (target path) at a time may use the volume:
 * SINGLE_NODE_SINGLE_WRITER.
 */
bool access_mode_is_single_pod(enum access_mode mode);
/* Returns "SINGLE_NODE_WRITER", ... */
const char *access_mode_name(enum access_mode mode);
/* Returns the mode's name in the DPUVolume CRD: ReadWriteOnce, ReadOnlyMany or ReadWriteMany. */
const char *access_mode_cr_name(enum access_mode mode);
const char *access_type_name(enum access_type type); /* returns "mount" or "block" */
/*
 * Returns the canonical name of a filesystem that this driver creates and mounts: ext4, ext3, xfs,
 * btrfs. For "" it returns ext4. Returns NULL for any other name.
 */
const char *filesystem_normalise(const char *fs_type);
/*
 * Returns 0 if a volume of this kind can be used in this way. The error message names `field` and
 * the accepted values.
 *
 * NVMe: INVALID_ARGUMENT for an unknown access mode, an unknown filesystem, and a mode that lets
 * one node write to a filesystem that other nodes have mounted. Raw block volumes may have every
 * mode.
 *
 * virtio-fs: INVALID_ARGUMENT for an unknown access mode and for a filesystem other than
 * "virtiofs", "" and "ext4"; external-provisioner writes the last two when no filesystem is given.
 * UNIMPLEMENTED for raw block. A share may be mounted with every mode.
 */
int volume_cap_check(const struct volume_cap *cap, enum emulation emulation, const char *field,
                     struct err *err) MUST_CHECK;
