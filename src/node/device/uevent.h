/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for the kernel's uevents about PCI functions and devices. State is always read from sysfs,
 * never taken from an event. Where no events arrive (in a network namespace of another user
 * namespace, in a recorded or simulated tree), the caller's own interval ends the wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/deadline.h"

struct uevent; /* a subscription; for one thread at a time */

/*
 * Subscribes to events of PCI and of these subsystems (borrowed; the array ends with NULL). Never
 * fails: without a netlink socket, uevent_wait() ends only by its timeout.
 */
struct uevent *uevent_open(const char *const *subsystems);
void uevent_close(struct uevent *u);
DEFINE_AUTO(struct uevent *, uevent_close);
/*
 * Waits for an event. Returns true if a relevant event was received. Returns false if ms
 * milliseconds passed, the deadline was reached or the call was cancelled.
 */
bool uevent_wait(struct uevent *u, int ms, struct deadline d);
/*
 * Returns true if this message (NUL-separated, as sent by the kernel) concerns a PCI function, a
 * device of one of the subsystems, or a disk whose DEVPATH leads through one of them ("/nvme").
 */
bool uevent_matters(const char *msg, size_t n, const char *const *subsystems);
