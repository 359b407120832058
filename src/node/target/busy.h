/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mountpoint_unmount() with an error that names what keeps the mount busy: "Device or resource
 * busy" alone helps no operator.
 */
#pragma once

#include "common/deadline.h"
#include "node/node.h"
#include "node/target/mountpoint.h"

/*
 * UNAVAILABLE: the mount is still busy after busy_ms (struct node_tuning). The text names what is
 * mounted below it, the loop device over it, or the processes that hold it.
 */
int busy_unmount(const struct node *n, const struct mountpoint *p, bool lazy, struct deadline d,
                 struct err *err) MUST_CHECK;
