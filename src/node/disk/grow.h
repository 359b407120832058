/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of a mounted filesystem to its device, as a job that may outlive its call. No state. */
#pragma once

#include "node/node.h"

/*
 * Joins a growth of this volume that still runs, then grows the filesystem, mounted read-write at
 * `mounted_at`. DEADLINE_EXCEEDED or CANCELLED: the tool still runs and goes on; the next call
 * joins it. It is not killed with its call: a slow one would begin again with each call. It is
 * killed after GROW_MS, since the volume cannot be unstaged while it runs.
 */
#define GROW_MS 600000
int grow_filesystem(struct node *n, const char *volume_id, const char *fs_type, const char *device,
                    const char *mounted_at, struct deadline d, struct err *err) MUST_CHECK;
