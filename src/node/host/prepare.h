/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares a host for its first volume: loads kernel drivers, and creates VFs of the DPU's
 * functions. No state; may run concurrently with any call of the node.
 */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "node/node.h"

/*
 * Does what is still missing and node_options permits: loads the kernel module nvme unless its
 * driver is in sysfs, and with EMULATION_VIRTIOFS as the default also the modules of virtio-fs;
 * creates VFs (device_create_vfs()). Adds its changes to `did` ("loaded nvme, 125 VFs on
 * 0000:26:00.0"); adds nothing if it changed nothing. -1: a step failed; the others were tried, and
 * volumes may work nevertheless. Creating VFs takes seconds. While the gate is closed
 * (gatekeeper.h), nothing is changed, and the result is -1 UNAVAILABLE.
 */
int node_prepare(struct node *n, struct str *did, struct err *err) MUST_CHECK;
enum { NODE_PREPARES = 1 };
/*
 * Runs node_prepare() on a thread of the node, one at a time, because each of its steps may hang.
 * Logs its changes and, with `log_error`, its error. Waits until the preparation ends, or until no
 * function has appeared for quiet_ms. Returns NODE_PREPARES if the preparation is still running;
 * *err (UNAVAILABLE) has its duration and the attributes that it is waiting for.
 */
int node_prepare_beside(struct node *n, bool log_error, int64_t quiet_ms, struct err *err)
	MUST_CHECK;
/*
 * Waits like node_prepare_beside() for a running preparation, but does not start one. Returns 0 if
 * no preparation is running. -1 DEADLINE_EXCEEDED or CANCELLED: d ended first.
 */
int node_prepare_wait(const struct node *n, int64_t quiet_ms, struct deadline d, struct err *err)
	MUST_CHECK;
enum node_module { MODULE_LOADED, MODULE_LOADABLE, MODULE_MISSING };
/*
 * Calls fn for each kernel module that volumes need, with the kind of volume that needs it.
 * `advice` is "", or the next step if the module is missing. Loads nothing. If the node may not
 * load modules, a module that is not loaded is reported as missing.
 */
typedef void node_module_fn(void *arg, const char *name, enum emulation kind, enum node_module is,
                            const char *advice);
void node_each_module(const struct node *n, node_module_fn *fn, void *arg);
/*
 * Loads the kernel modules virtio_pci and virtiofs if their drivers are not in sysfs and
 * node_options permits it. To be called before a virtio-fs volume is staged. Ignores a blacklist
 * that applies to the boot. Returns 0 even if loading is not permitted; device_wait() then reports
 * missing drivers. -1 UNAVAILABLE: the kernel has no such module; the message says what to install.
 * A modprobe that hangs is abandoned after 20 s.
 */
int node_load_virtiofs(const struct node *n, struct err *err) MUST_CHECK;
