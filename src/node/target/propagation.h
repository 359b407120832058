/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the mounts of this driver propagate to kubelet and its pods. In a container, only
 * mounts below a mount that is shared with the host (mountPropagation: Bidirectional) propagate.
 * Without propagation, a pod would silently write to its host's disk instead of its volume.
 *
 * This matters only if this process or its container has its own mount namespace. That is certain
 * if the process is PID 1 (a container without hostPID), or if PID 1 has a different mount
 * namespace (a container with hostPID, or one that shares its PID namespace). Otherwise the driver
 * runs on the host beside kubelet, pods see its mounts whatever their propagation, and no mount is
 * refused. No mount is refused either if this process may not read the namespace of PID 1.
 *
 * No state; everything is read below the proc root, so recorded files work as well.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "node/mount/mount.h"

struct node_options;

/* Returns true if this process has its own mount namespace. */
bool propagation_matters(const char *proc_root);
/*
 * Checks one path. Returns 0 if pods see mounts at `path`, or if own_mounts is false.
 * FAILED_PRECONDITION: the message names the mount that is not shared, and the line missing from
 * the DaemonSet. If t is NULL, the function reads the mount table.
 */
int propagation_check(const struct node_options *o, const struct mount_table *t, const char *path,
                      struct err *err) MUST_CHECK;
/*
 * To be called at startup: adds a line to `errors` for each of kubelet's directories where mounts
 * would be refused, and to `warnings` for each directory that is not shared although mounts are not
 * refused.
 */
int propagation_scan(const struct node_options *o, struct strs *errors, struct strs *warnings,
                     struct err *err) MUST_CHECK;
