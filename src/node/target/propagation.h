/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do the mounts of this driver reach kubelet and its pods? In a container they do only below a
 * mount that is shared with the host (mountPropagation: Bidirectional); elsewhere a pod would write
 * to the disk of its host instead of its volume, without any error.
 *
 * When it matters: only in a mount namespace that was made for this process or its container. That
 * is certain when it is process 1 (a container without hostPID), or when process 1 has another
 * mount namespace (a container with hostPID, or one that shares its processes). Otherwise it is a
 * process beside kubelet on the host, whose mounts pods see whatever their propagation, and nothing
 * is refused. Nothing is refused either when this process may not read process 1's namespace.
 *
 * No state; everything is read below the proc root, so recorded files serve as well.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "node/mount/mount.h"

struct node_options;

/* Does this process have a mount namespace of its own? */
bool propagation_matters(const char *proc_root);
/*
 * 0: pods see what is mounted at `path`, or own_mounts says that it does not matter.
 * FAILED_PRECONDITION: the text names the mount that is not shared and the line that the DaemonSet
 * lacks. `t` NULL: reads the table itself.
 */
int propagation_check(const struct node_options *o, const struct mount_table *t, const char *path,
                      struct err *err) MUST_CHECK;
/*
 * For the start: adds a line to `errors` for each of kubelet's directories in which mounts would be
 * refused, and to `warnings` for each that is not shared where nothing is refused.
 */
int propagation_scan(const struct node_options *o, struct strs *errors, struct strs *warnings,
                     struct err *err) MUST_CHECK;
