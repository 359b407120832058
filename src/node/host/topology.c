/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps one bit, the last value reported to kubelet. max_volumes.c counts. */
#include "node/host/topology.h"

#include "common/log.h"

#define LOOK_MS 5000

bool node_topology_reported(struct node *n, const struct max_volumes *m)
{
	if (!n->o.topology_key || atomic_load(&n->lacks_topology))
		return false;
	if (m->seen)
		return true;
	atomic_store(&n->lacks_topology, true);
	log_event(LOG_WARNING,
	          "no volume can be reached from this node: its DPU offers no functions, and no "
	          "earlier count exists",
	          "label", n->o.topology_key, "where", m->where, NULL);
	return false;
}

bool node_topology_appeared(struct node *n)
{
	struct err ignored = ERR_INIT;
	struct max_volumes m;

	if (!atomic_load(&n->lacks_topology) ||
	    max_volumes_answer(n, deadline_in_ms(LOOK_MS), &m, &ignored) || !m.seen)
		return false;
	atomic_store(&n->lacks_topology, false);
	log_event(LOG_INFO,
	          "the DPU offers functions now; asking kubelet to register this driver again",
	          "label", n->o.topology_key, "where", m.where, NULL);
	return true;
}
