/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmounts like mountpoint_unmount(), but the error names the holder of a busy mount, because
 * "Device or resource busy" is not enough for an operator.
 */
#pragma once

#include "common/deadline.h"
#include "node/node.h"
#include "node/target/mountpoint.h"

/*
 * UNAVAILABLE: the mount is still busy after busy_ms (struct node_tuning). The message names the
 * mounts below it, the loop device that it backs, or the processes that hold it.
 */
int busy_unmount(const struct node *n, const struct mountpoint *p, bool lazy, struct deadline d,
                 struct err *err) MUST_CHECK;
