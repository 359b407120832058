/* SPDX-License-Identifier: Apache-2.0 */
/* NodeExpandVolume. */
#pragma once

#include "common/deadline.h"
#include "common/secret.h"
#include "node/node.h"
#include "volume/volume_cap.h"

struct expand_request {
	const char *volume_id;
	const char *path;               /* staging path or target path */
	uint64_t required, limit;       /* bytes; 0: not set */
	const struct volume_cap *cap;   /* NULL: not set */
	const struct passphrases *keys; /* of an encrypted volume; NULL: not given */
};
/*
 * Grows the volume's filesystem to the size of its disk. *ret_bytes is the size of the disk; for a
 * share, whose size is unknown, it is 0.
 */
int node_expand(struct node *n, const struct expand_request *r, struct deadline d,
                uint64_t *ret_bytes, struct err *err) MUST_CHECK;
