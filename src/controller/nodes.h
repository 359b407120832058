/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there such a node, and how many volumes can it have? Answers as good as the permissions are.
 */
#pragma once

#include <stdint.h>

#include "controller/controller.h"

/*
 * NOT_FOUND when the node is known not to exist: no DPUNode of that name in our namespace; where
 * those cannot be read, no core Node; where neither can, every name passes (and one warning is
 * logged).
 */
int node_check(struct controller *c, const char *node, struct deadline d, struct err *err)
	MUST_CHECK;
/* The volume count that kubelet published for this driver (CSINode); 0: not known. */
int64_t node_limit(struct controller *c, const char *node, struct deadline d);
