/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key/value namespaces on a host: Linux provides no disk for them, only a character device, so
 * nothing is staged. The link below /dev/snap-csi leads to the character device. Any thread; one at
 * a time for a volume, by its lock.
 */
#pragma once

#include "host/host_node.h"
#include "host/state_file.h"
#include "node/health.h"

enum { HOST_NOT_CHARACTER = 1 };
/*
 * Waits for the volume's character device and verifies it. Returns 0 if *ret is that device.
 * HOST_NOT_CHARACTER: the attachment has a UUID, or its namespace is a disk, so the volume is
 * staged. Errors are those of device_wait() and device_check_character().
 */
int host_character_find(struct node *n, const char *volume, const struct device_want *want,
                        struct deadline d, struct device *ret, struct err *err) MUST_CHECK;
/*
 * Checks that no process has the character device open, then releases its function. Returns 0 even
 * if the device is absent, or belongs to another volume. -1 FAILED_PRECONDITION: it is open; the
 * message names the processes.
 */
int host_character_release(struct node *n, const struct host_state *is, struct deadline d,
                           struct err *err) MUST_CHECK;
/*
 * The health of a volume of the state file, staged or not; like node_volume_health() with a staging
 * path.
 */
int host_volume_health(struct node *n, const struct host_args *a, const struct host_state *is,
                       struct health *ret, struct err *err) MUST_CHECK;
