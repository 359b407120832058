/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects tools that have outlived their driver process. A mkfs, an e2fsck or a luks command
 * inherits the driver's descriptor of the device, and with it a lock (flock(2)) that lasts until both
 * processes have ended. So the lock is still held if a driver that runs directly on the host was
 * killed, but its tool was not. A disk that such a tool still writes to must not be formatted,
 * checked, mounted or released.
 */
#pragma once

#include "node/node.h"

/*
 * Locks the device that fd is open on. Waits for a short lock, such as udev's. ABORTED: a tool or
 * another process has locked the device; the message names the process.
 */
int orphan_tool_lock(const struct node *n, const struct device *dev, int fd, struct deadline d,
                     struct err *err) MUST_CHECK;
/*
 * Uses the records of tools (disk_record.h) to check that no tool works on the disk of this volume.
 * ABORTED: a tool does. UNAVAILABLE: this could not be determined.
 */
int orphan_tool_check(const struct node *n, const char *volume_id, struct deadline d,
                      struct err *err) MUST_CHECK;
