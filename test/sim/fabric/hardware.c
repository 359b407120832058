/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of functions that are bound. No state. */
#include "test/sim/fabric/hardware.h"

#include "common/mem.h"

bool host_is_multipath(const struct host *h)
{
	return !h->fabric->options->no_multipath;
}

const char *function_driver(const struct function *fn)
{
	return fn->fs ? "virtio-pci" : "nvme";
}

char *function_subsystem_dir(const struct function *fn)
{
	return xasprintf("devices/virtual/nvme-subsystem/nvme-subsys%u", fn->subsystem);
}

char *function_controller_dir(const struct function *fn)
{
	return xasprintf("%s/nvme/nvme%u", fn->dir, fn->instance);
}
