/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakes a wait when the kernel's uevents say that PCI functions or devices of a kind changed. Facts
 * are read from sysfs, never from an event. Where no events come (in a network namespace of another
 * user namespace, in a recorded or simulated tree), the caller's own interval ends the wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/deadline.h"

struct uevent; /* a subscription; one thread at a time */

/*
 * Events of PCI and of these subsystems (NULL at the end; borrowed) matter. Never fails: without a
 * netlink socket only time passes in uevent_wait().
 */
struct uevent *uevent_open(const char *const *subsystems);
void uevent_close(struct uevent *u);
DEFINE_AUTO(struct uevent *, uevent_close);
/*
 * Waits. True: an event that matters came. False: ms passed, the deadline was reached or the call
 * was cancelled.
 */
bool uevent_wait(struct uevent *u, int ms, struct deadline d);
/*
 * Does this message (NUL-separated, as the kernel sends it) concern a PCI function, a device of one
 * of the subsystems, or a disk whose DEVPATH leads through one of them ("/nvme")?
 */
bool uevent_matters(const char *msg, size_t n, const char *const *subsystems);
