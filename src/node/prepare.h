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
 * Does what is missing and allowed (node_options): the kernel module nvme, unless sysfs has its
 * driver; VFs by device_create_vfs(). Tells `did` ("loaded nvme, 125 VFs on 0000:26:00.0"; "" when
 * nothing was missing). -1: something could not be done; the rest was tried. Volumes may work
 * nevertheless: report it and go on. Takes seconds when VFs are made.
 */
int node_prepare(const struct node *n, struct str *did, struct err *err) MUST_CHECK;
