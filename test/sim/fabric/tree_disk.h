/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe namespaces in sysfs and in <dev>. Callers hold fabric->lock. */
#pragma once

#include "test/sim/fabric/hardware.h"

/* Does nothing while the function is not bound, or if the disk is already visible. */
int disk_appear(struct function *fn, struct disk *k, struct err *err) MUST_CHECK;
void disk_vanish(struct function *fn, struct disk *k);
int disk_resized(struct function *fn, struct disk *k, struct err *err) MUST_CHECK;
