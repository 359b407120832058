/* SPDX-License-Identifier: Apache-2.0 */
/* The hot-plug ports of a node's DPU, and what is plugged into them. */
#pragma once

#include "test/sim/fabric/fabric.h"
#include "test/sim/fabric/hardware.h"

/* ---- for this room; callers hold fabric->lock ---- */

/* A hot-plug function of slot `index` at its own address: fills in bdf and dir. */
void hotplug_place(struct function *fn);
/* The DPU's PCIe switch with a slot below each of its n ports; nothing for n = 0. */
int hotplug_build(struct host *h, unsigned n, struct err *err) MUST_CHECK;
/*
 * A hot-plug function that is not there appears, and the kernel binds it (unless the fault
 * bind-ignored or the option blacklist-virtio says otherwise).
 */
int hotplug_appear(struct function *fn, struct err *err) MUST_CHECK;
/* It has gone for good: its next volume is in its own slot again. */
void hotplug_settle(struct function *fn);

/* ---- the switches of snap-sim ---- */

/*
 * The function of the volume vanishes from the host, also while it is used; the DPU goes on
 * believing it is there. A volume may be on several nodes: node NULL means any of them. NOT_FOUND:
 * no hot-plug function has this volume; FAILED_PRECONDITION: it has vanished already.
 */
int hotplug_unplug(struct fabric *f, const char *volume, const char *node, struct err *err)
	MUST_CHECK;
/*
 * It comes back, as another disk for the kernel; in that slot, or where it was for slot -1. The
 * published address stays what it was. UNAVAILABLE: its last disk is still mounted or open.
 */
int hotplug_plug(struct fabric *f, const char *volume, const char *node, int64_t slot,
                 struct err *err) MUST_CHECK;
