/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do the mounts that are made here reach kubelet and its pods? In a container they do only below a
 * mount that is shared with the host (mountPropagation: Bidirectional); elsewhere a pod would write
 * to the disk of its host instead of its volume, and nobody would be told.
 *
 * When it matters: only in a mount namespace that was made for this process or its container. That
 * is certain when it is process 1 (a container without hostPID), or when process 1 has another
 * mount namespace (a container with hostPID, or one that shares its processes). In any other case,
 * as a process beside kubelet on the host, a mount is seen whatever its propagation, and nothing is
 * refused; nor when process 1 may not be looked at.
 *
 * No state; everything is read below the proc root, so recorded files serve as well.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "node/mount/mount.h"

struct node_options;

bool propagation_matters(const char *proc_root);
/*
 * May something be mounted at `path`? 0, also where it does not matter (own_mounts);
 * FAILED_PRECONDITION naming the mount that is not shared and the line that is missing in the
 * DaemonSet. t NULL: the table is read.
 */
int propagation_check(const struct node_options *o, const struct mount_table *t, const char *path,
                      struct err *err) MUST_CHECK;
/*
 * At start: a line in `errors` for each of kubelet's directories below which a mount would be
 * refused, and in `warnings` where that is only what the host should know.
 */
int propagation_look(const struct node_options *o, struct strs *errors, struct strs *warnings,
                     struct err *err) MUST_CHECK;
