/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restricts the paths that the driver acts on to those below kubelet's root directory, and below
 * directories that an operator has configured for another orchestrator. So a wrong path in a
 * request cannot mount over, or unmount, any other directory of the host.
 *
 * No state, any thread. The mount at the path is not accessed.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

struct node_options;

/*
 * Checks that the path, with symbolic links in its parent directories resolved, is below
 * kubelet_dir or one of volume_dirs; its last components need not exist. INVALID_ARGUMENT: it is
 * not absolute, or has a component "..". FAILED_PRECONDITION: it is elsewhere, or leads through a
 * link that cannot be followed; the message says which, and names the options.
 */
int paths_check(const struct node_options *o, const char *path, struct err *err) MUST_CHECK;
/*
 * Like paths_check(), for a path that will be mounted or unmounted: also FAILED_PRECONDITION if the
 * path itself is a symbolic link. Do not call it concurrently with other calls for the volume,
 * because it keeps the mount open for a moment, in which an unmount would fail with EBUSY.
 */
int paths_check_point(const struct node_options *o, const char *path, struct err *err) MUST_CHECK;
/*
 * Returns true if the path, which must have its links resolved, is below one of these directories.
 * Accesses no directory on the way, so the path may lead through a mount that hangs.
 */
bool paths_allowed(const struct node_options *o, const char *dir);
/*
 * Returns the path, malloc'ed, with the links above its last component resolved, as far as they
 * exist. Functions that act on the result do not follow links in it: they open its directories one
 * by one. Errors are those of paths_check(), and INVALID_ARGUMENT if the last component is "." or
 * "..".
 */
int paths_resolve(const char *path, char **ret, struct err *err) MUST_CHECK;
/*
 * Returns the parent directory of an absolute path, malloc'ed, with its links resolved as far as it
 * exists. Returns NULL if a component exists and cannot be followed; *ret_blocked (may be NULL) is
 * then that component's name, malloc'ed.
 */
char *paths_directory(const char *path, char **ret_blocked);
