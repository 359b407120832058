/* SPDX-License-Identifier: Apache-2.0 */
/* The hot-plug ports of a node's DPU, and the functions in them. */
#pragma once

#include "test/sim/fabric/fabric.h"
#include "test/sim/fabric/hardware.h"

/* ---- for this room; callers hold fabric->lock ---- */

/* A hot-plug function of slot `index` at its own address: fills in bdf and dir. */
void hotplug_place(struct function *fn);
/* The DPU's PCIe switch with a slot below each of its n ports; nothing for n = 0. */
int hotplug_build(struct host *h, unsigned n, struct err *err) MUST_CHECK;
/*
 * An absent hot-plug function appears, and the kernel binds it (unless the fault bind-ignored or
 * the option blacklist-virtio prevents it).
 */
int hotplug_appear(struct function *fn, struct err *err) MUST_CHECK;
/* It was removed permanently: its next volume uses its own slot again. */
void hotplug_settle(struct function *fn);

/* ---- the switches of snap-sim ---- */

/*
 * The function of the volume disappears from the host, even while in use; the DPU still considers
 * it plugged. A volume may be on several nodes: node NULL means any of them. NOT_FOUND: no hot-plug
 * function has this volume; FAILED_PRECONDITION: it has vanished already.
 */
int hotplug_unplug(struct fabric *f, const char *volume, const char *node, struct err *err)
	MUST_CHECK;
/*
 * It returns, as a new disk for the kernel; in that slot, or in its previous one for slot -1. The
 * published address is unchanged. UNAVAILABLE: its last disk is still mounted or open.
 */
int hotplug_plug(struct fabric *f, const char *volume, const char *node, int64_t slot,
                 struct err *err) MUST_CHECK;
