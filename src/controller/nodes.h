/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a node exists and how many volumes it can have, as far as the driver may read that. */
#pragma once

#include <stdint.h>

#include "controller/controller.h"

/*
 * No request for a node that has attachments, or was found less than NODE_EXISTS_FOR_NS ago.
 * NOT_FOUND when there is no DPUNode of that name in the driver's namespace. Where DPUNodes may not
 * be read, the core Node counts; where neither may be read, every name passes, and one warning is
 * logged.
 */
int node_check(struct controller *c, const char *node, struct deadline d, struct err *err)
	MUST_CHECK;
/*
 * The volume count that kubelet published for this driver (CSINode); 0: not known. Unless `fresh`,
 * it may be NODE_LIMIT_FOR_NS old.
 */
int64_t node_limit(struct controller *c, const char *node, bool fresh, struct deadline d);
