/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether this node reports that volumes are accessible from it (--topology): the node has
 * functions of a DPU, or had some at its last count. A DPU that is temporarily unreachable does not
 * change the answer, because kubelet does not remove the label. Any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/host/max_volumes.h"
#include "node/node.h"

/*
 * Returns the answer for NodeGetInfo. kubelet labels its Node only at a registration, but calls
 * NodeGetInfo at other times as well. Therefore, once this has returned false, it returns false
 * until node_topology_appeared() returns true.
 */
bool node_topology_reported(struct node *n, const struct max_volumes *m);
/*
 * Returns true once if the node has got functions after it reported none to kubelet, so the driver
 * has to be registered again. While none was reported, it counts the functions, and prepares the
 * host as NodeGetInfo does, which may take seconds.
 */
bool node_topology_appeared(struct node *n);
