/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host needs before the first volume: the kernel's nvme driver, and VFs on the DPU's
 * functions. No state; may run beside any call of the node.
 */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "node/node.h"

/*
 * Does what is missing, as far as node_options allows: loads the kernel module nvme unless sysfs
 * has its driver, and makes VFs (device_create_vfs()). Adds what it did to `did` ("loaded nvme, 125
 * VFs on 0000:26:00.0"; nothing when nothing was missing). -1: something failed; the rest was
 * tried, and volumes may work nevertheless. Takes seconds when VFs are made.
 */
int node_prepare(struct node *n, struct str *did, struct err *err) MUST_CHECK;
