/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver has a single topology key (--topology): nodes with DPU functions report its segment,
 * other nodes do not. A volume can be reached from every node that reports the segment. Stateless;
 * any thread.
 */
#pragma once

#include "common/err.h"
#include "common/kv.h"

#define TOPOLOGY_VALUE "true"

/* Returns "topology.<driver>/dpu", malloc'ed. It is a label of Nodes, and must never change. */
char *topology_key(const char *driver);

/*
 * Returns 0 if a volume can be reached from one of these topologies, each a map of segments, or if
 * n is 0. Otherwise RESOURCE_EXHAUSTED names the requested topologies.
 */
int topology_check(const char *key, const struct kvs *requisite, size_t n, struct err *err)
	MUST_CHECK;
