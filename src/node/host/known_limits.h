/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that hide functions of the DPU from a host although DPU and driver work: those of the
 * host's firmware and kernel, and known issues of DPF. `host check` and `inspect` share these
 * texts. No state, any thread.
 */
#pragma once

#include "node/device/device.h"

/* DPF reports such an attachment as Ready, so only the host shows that its function is missing. */
#define NOT_PLUGGED_AGAIN                                                                     \
	"DPF does not plug functions again after a power cycle of the host (its known issue " \
	"4734537)"
#define NOT_PLUGGED_AGAIN_NEXT                                                                     \
	"after a power cycle drain the node and delete the VolumeAttachments of its volumes; for " \
	"a host outside Kubernetes delete and create the DPUVolumeAttachment"

/* `what` is the limit, `next` the next step; both are valid only during the call. */
typedef void known_limit_fn(void *arg, const char *what, const char *next);
/*
 * Calls fn for each limit that this host shows: hot-plug ports without bus numbers and, if the
 * driver creates VFs (`vfs`), a PF that may lack VFs because there are too few bus numbers. Reads
 * sysfs and the kernel's arguments, and skips those that it cannot read.
 */
void known_limits_each(const struct device_world *w, bool vfs, known_limit_fn *fn, void *arg);
