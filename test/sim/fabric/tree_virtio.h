/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-fs functions in sysfs, as in recorded trees (kernels 6.1 and 6.12). Callers hold
 * fabric->lock.
 */
#pragma once

#include "test/sim/fabric/devtree.h"
#include "test/sim/fabric/hardware.h"

#define VIRTIO_MODALIAS "pci:v00001AF4d0000105Asv00001AF4sd00001100bc01sc80i00"

/* The parts of the bus that drivers of virtio devices have, even without a device. */
void virtio_build_bus(struct devtree *t, const struct host *h);
/*
 * Writes the attributes that an NVMe function does not have, or has with other values, into the
 * directory.
 */
void virtio_write_function(struct devtree *t, const struct function *fn, const char *dir);
/*
 * A function was bound to virtio-pci: assigns numbers for its device, and decides whether virtiofs
 * binds it.
 */
void virtio_take(struct function *fn);
/* The virtio device below the function; its tag, if the kernel shows it. */
void virtio_appear(struct devtree *t, const struct function *fn);
void virtio_vanish(struct devtree *t, struct function *fn);
