/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which paths the driver acts on: those below kubelet's root directory, and below directories that
 * an operator has named for another orchestrator. A wrong path in a request then neither mounts
 * over nor unmounts anything of the host.
 *
 * No state, any thread. What is mounted at the path is not touched.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

struct node_options;

/*
 * 0: the path is below kubelet_dir or one of volume_dirs, after links above it have been followed;
 * its last parts need not exist. INVALID_ARGUMENT: it is not absolute, or has a component "..".
 * FAILED_PRECONDITION: it lies elsewhere, or leads through a link that cannot be followed; the text
 * says which and names the flags.
 */
int paths_check(const struct node_options *o, const char *path, struct err *err) MUST_CHECK;
/*
 * The same for a path at which something will be mounted or unmounted: FAILED_PRECONDITION, too,
 * when it is a link itself. Not for calls that run beside others of their volume: for a moment it
 * holds what is mounted there, and an unmount would be EBUSY.
 */
int paths_check_point(const struct node_options *o, const char *path, struct err *err) MUST_CHECK;
/*
 * Is the path, which has no links, below one of them? Nothing on its way is touched, so it may lead
 * through a mount that hangs.
 */
bool paths_allowed(const struct node_options *o, const char *dir);
/*
 * The directory of an absolute path with its links followed, as far as it exists; malloc'ed. NULL:
 * something on the way exists and cannot be followed; *ret_blocked (may be NULL) is then its name,
 * malloc'ed.
 */
char *paths_directory(const char *path, char **ret_blocked);
