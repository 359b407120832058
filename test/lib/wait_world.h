/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of device_wait(): a recorded tree with one VF, the kernel of kernel.h behind
 * it, and a volume that waits for its device. Any failure here fails the running test.
 */
#pragma once

#include <stdint.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "node/device/device.h"
#include "test/lib/kernel.h"
#include "test/lib/tree.h"

#define MIB (UINT64_C(1) << 20)
#define U1 "11111111-aaaa-4bbb-8ccc-000000000001"
#define VF "0000:01:00.1"
#define VF_DIR "/sys/devices/pci0000:00/0000:00:04.0/" VF
#define OVERRIDE "/sys/bus/pci/devices/" VF "/driver_override"

/* The writes that bind VF to the driver... */
#define BOUND "driver_override nvme; bind " VF
/* ... and the one that clears the override once the device is found. */
#define BOUND_AND_FOUND BOUND "; driver_override "
#define BOUND_AND_BACK BOUND "; unbind " VF "; driver_override "

struct wait_world {
	struct tree tree;
	struct kernel kernel;
	struct device_world world;
	struct device_want want; /* namespace 1 of VF, UUID U1, 64 MiB */
	struct device dev;
	struct err err;
};

/* In the recorded state of that name (tree_unpack()). */
void wait_world_init(struct wait_world *w, const char *state);
void wait_world_clear(struct wait_world *w);
DEFINE_AUTO_VALUE(struct wait_world, wait_world_clear);

/* device_wait() for the volume, into w->dev and w->err. */
int wait_ms(struct wait_world *w, int ms);
/* A namespace of 64 MiB below VF: 259:<nsid>, nvme0n<nsid>. */
void add_namespace(const struct tree *t, uint32_t nsid, const char *uuid);
/* For kernel.on_bind: the volume's namespace comes with the bind. */
void namespace_on_bind(struct kernel *k, const char *pci);

/* All writes to sysfs so far, as returned by kernel_writes(). */
void assert_writes(struct wait_world *w, const char *want);
/* driver_override of VF now. */
void assert_override(struct wait_world *w, const char *want);
