/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this node says that volumes can be reached from it (--topology): when it has functions of
 * a DPU, or had some when it last counted. A DPU that is away for a while takes nothing back, since
 * kubelet removes no label. Any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/host/max_volumes.h"
#include "node/node.h"

/*
 * For NodeGetInfo. kubelet labels its Node at a registration alone, and asks at other times, too:
 * once the answer was no, it stays so until node_topology_appeared().
 */
bool node_topology_reported(struct node *n, const struct max_volumes *m);
/*
 * Has the node got functions since it reported to kubelet that it has none? True once: the driver
 * is to be registered again. Else it counts, and prepares the host as NodeGetInfo does, which may
 * take seconds.
 */
bool node_topology_appeared(struct node *n);
