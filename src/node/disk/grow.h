/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows a mounted filesystem to the size of its device, as a job that may outlive its call. No
 * state.
 */
#pragma once

#include "node/node.h"

/*
 * Waits for a running growth of this volume, then grows the filesystem, which is mounted read-write
 * at `mounted_at`. DEADLINE_EXCEEDED or CANCELLED: the tool still runs, and the next call waits for
 * it. The end of a call does not kill the tool; otherwise a slow tool would restart with each call.
 * The tool is killed after GROW_MS, because the volume cannot be unstaged while it runs.
 */
#define GROW_MS 600000
int grow_filesystem(struct node *n, const char *volume_id, const char *fs_type, const char *device,
                    const char *mounted_at, struct deadline d, struct err *err) MUST_CHECK;
