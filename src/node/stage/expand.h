/* SPDX-License-Identifier: Apache-2.0 */
/* NodeExpandVolume. */
#pragma once

#include "common/deadline.h"
#include "node/node.h"
#include "volume/volume_cap.h"

struct expand_request {
	const char *volume_id;
	const char *path;             /* staged or published */
	uint64_t required, limit;     /* bytes; 0: not given */
	const struct volume_cap *cap; /* NULL: not given */
};
/* *ret_bytes: the disk's size; 0 for a share, whose size nobody tells. */
int node_expand(struct node *n, const struct expand_request *r, struct deadline d,
                uint64_t *ret_bytes, struct err *err) MUST_CHECK;
