/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host needs before the first volume: the kernel's drivers, and VFs on the DPU's functions.
 * No state; may run beside any call of the node.
 */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "node/node.h"

/*
 * Does what is missing, as far as node_options allows: loads the kernel module nvme unless sysfs
 * has its driver, with EMULATION_VIRTIOFS as the default also those of virtio-fs, and makes VFs
 * (device_create_vfs()). Adds what it did to `did` ("loaded nvme, 125 VFs on 0000:26:00.0"; nothing
 * when nothing was missing). -1: something failed; the rest was tried, and volumes may work
 * nevertheless. Takes seconds when VFs are made. While the gate is closed (gatekeeper.h) nothing is
 * done, and -1 UNAVAILABLE says so.
 */
int node_prepare(struct node *n, struct str *did, struct err *err) MUST_CHECK;
enum { NODE_PREPARES = 1 };
/*
 * node_prepare() on a thread of the node's, one at a time, since each step of it may hang. Logs its
 * changes and, with `log_error`, its error. The caller waits as long as functions keep appearing,
 * and quiet_ms after the last one. NODE_PREPARES: it still runs; *err (UNAVAILABLE) says for how
 * long and at which attributes.
 */
int node_prepare_beside(struct node *n, bool log_error, int64_t quiet_ms, struct err *err)
	MUST_CHECK;
/*
 * Waits likewise for a running preparation, but starts none. 0: no preparation runs. -1
 * DEADLINE_EXCEEDED or CANCELLED: d ended first.
 */
int node_prepare_wait(const struct node *n, int64_t quiet_ms, struct deadline d, struct err *err)
	MUST_CHECK;
enum node_module { MODULE_LOADED, MODULE_LOADABLE, MODULE_MISSING };
/*
 * Calls fn for each kernel module that volumes need, in the kind that needs it; `advice` is "" or
 * what to do where it is missing. Loads nothing. Where the node may not load it, one that is not
 * loaded is missing.
 */
typedef void node_module_fn(void *arg, const char *name, enum emulation kind, enum node_module is,
                            const char *advice);
void node_each_module(const struct node *n, node_module_fn *fn, void *arg);
/*
 * Loads the kernel modules virtio_pci and virtiofs where sysfs has not their drivers, when
 * node_options allows it; before a virtio-fs volume is staged. A blacklist for the boot does not
 * keep them out. 0, too, when it is not allowed: what is missing is told by device_wait() then. -1
 * UNAVAILABLE: the text says what to install, as far as the kernel has no such module. A modprobe
 * that hangs is given up after 20 s.
 */
int node_load_virtiofs(const struct node *n, struct err *err) MUST_CHECK;
