/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines from a path in kubelet's directories which volume is staged or published there, using
 * the directory names and the vol_data.json that kubelet stores beside them. No state, any thread.
 *
 * Source: Kubernetes, pkg/volume/csi (csi_mounter.go, csi_block.go).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"
#include "node/target/mountpoint.h"

enum kubelet_role { KUBELET_OTHER, KUBELET_STAGED, KUBELET_PUBLISHED };

/* Strings are malloc'ed; NULL: unknown. */
struct kubelet_volume_dir {
	enum kubelet_role role;
	char *volume_id;
	char *persistent_volume;
	char *attachment; /* name of the VolumeAttachment */
	char *pod;        /* UID */
	bool block;       /* a raw-block file, according to its directory's name */
	bool foreign;     /* according to vol_data.json, the volume belongs to another driver */
	int64_t since;    /* seconds since kubelet started to use the volume; -1: unknown */
};

/*
 * Describes the volume at `path`, which must have its links resolved. Reads vol_data.json, never
 * the mount at the path.
 */
void kubelet_volume_dir_read(const char *kubelet_dir, const char *driver, const char *path,
                             struct kubelet_volume_dir *ret);
void kubelet_volume_dir_clear(struct kubelet_volume_dir *p);
DEFINE_AUTO_VALUE(struct kubelet_volume_dir, kubelet_volume_dir_clear);
/*
 * Checks that the mount belongs to this volume. FAILED_PRECONDITION: according to vol_data.json,
 * another volume is mounted at this mountpoint, so the caller must not unmount it. A missing or
 * unreadable vol_data.json is not an error.
 */
int kubelet_check_volume(const char *kubelet_dir, const struct mountpoint *p, const char *volume_id,
                         struct err *err) MUST_CHECK;
/*
 * Adds the paths where kubelet has staged or published a filesystem of this driver, or is about to,
 * whether or not it is mounted. Skips directories that cannot be listed.
 */
void kubelet_wanted(const char *kubelet_dir, const char *driver, struct strs *ret);
