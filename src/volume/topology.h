/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one topology of this driver (--topology): a node has functions of a DPU, or it says nothing.
 * A volume can be reached from every node of the first sort. No state, any thread.
 */
#pragma once

#include "common/err.h"
#include "common/kv.h"

#define TOPOLOGY_VALUE "true"

/* "topology.<driver>/dpu", malloc'ed: a label of Nodes, in clusters for ever. */
char *topology_key(const char *driver);

/*
 * Can a volume be reached from one of these places, each a map of segments? 0 also when there are
 * none. RESOURCE_EXHAUSTED names what is asked for instead.
 */
int topology_check(const char *key, const struct kvs *requisite, size_t n, struct err *err)
	MUST_CHECK;
