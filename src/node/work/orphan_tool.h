/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools that have outlived a driver. A mkfs or e2fsck inherits the driver's descriptor of the
 * device, and with it a lock (flock(2)) that lasts until both have gone: it is held when a driver
 * that runs on the host itself was killed, and its tool was not. Nothing may format, check, mount
 * or let go a disk that such a tool still writes to.
 */
#pragma once

#include "node/node.h"

/*
 * Locks the device that fd is open on. ABORTED: a tool, or somebody else, has it locked; the text
 * names who. udev does so for a moment, too, which is waited for.
 */
int orphan_tool_lock(const struct node *n, const struct device *dev, int fd, struct deadline d,
                     struct err *err) MUST_CHECK;
/*
 * Does no tool work on the disk of this volume, as far as the records of tools (disk_record.h) say?
 * ABORTED: one does. UNAVAILABLE: it is not known.
 */
int orphan_tool_check(const struct node *n, const char *volume_id, struct deadline d,
                      struct err *err) MUST_CHECK;
