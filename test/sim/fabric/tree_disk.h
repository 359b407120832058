/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How NVMe namespaces look in sysfs and in <dev>. Called with fabric->lock held.
 */
#pragma once

#include "test/sim/fabric/hardware.h"

/* Nothing happens while the function is not bound, or when the disk is visible already. */
int disk_appear(struct function *fn, struct disk *k, struct err *err) MUST_CHECK;
void disk_vanish(struct function *fn, struct disk *k);
int disk_resized(struct function *fn, struct disk *k, struct err *err) MUST_CHECK;
