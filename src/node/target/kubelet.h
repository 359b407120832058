/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kubelet's directories say of a path: whose volume is staged or published there. By its
 * names, and the vol_data.json that kubelet keeps beside. No state, any thread.
 *
 * Source: Kubernetes, pkg/volume/csi (csi_mounter.go, csi_block.go).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"

enum kubelet_role { KUBELET_OTHER, KUBELET_STAGED, KUBELET_PUBLISHED };

/* Strings are malloc'ed; NULL: not known. */
struct kubelet_volume_dir {
	enum kubelet_role role;
	char *volume_id;
	char *persistent_volume;
	char *attachment; /* name of the VolumeAttachment */
	char *pod;        /* UID */
	bool block;       /* a raw-block file, by the name of its directory */
	bool foreign;     /* kubelet says that it is another driver's */
	int64_t since;    /* seconds since kubelet has begun with it; -1: not known */
};

/* A path that has no links. Reads vol_data.json, never what is at the path. */
void kubelet_volume_dir_read(const char *kubelet_dir, const char *driver, const char *path,
                             struct kubelet_volume_dir *ret);
void kubelet_volume_dir_clear(struct kubelet_volume_dir *p);
DEFINE_AUTO_VALUE(struct kubelet_volume_dir, kubelet_volume_dir_clear);
/*
 * Adds the paths where kubelet has, or wants, a filesystem of this driver staged or published,
 * whether or not one is mounted there. What cannot be listed is left out.
 */
void kubelet_wanted(const char *kubelet_dir, const char *driver, struct strs *ret);
