/* SPDX-License-Identifier: Apache-2.0 */
/* NodePublishVolume and NodeUnpublishVolume. */
#pragma once

#include "common/deadline.h"
#include "node/node.h"
#include "volume/volume_cap.h"

struct publish_request {
	const char *volume_id;
	const char *staging_path;
	const char *target_path;
	struct volume_cap cap;
	bool read_only;
	const struct device_want *want; /* NULL: the request has no publish context */
};
int node_publish(struct node *n, const struct publish_request *r, struct deadline d,
                 struct err *err) MUST_CHECK;
int node_unpublish(struct node *n, const char *volume_id, const char *target_path, struct err *err)
	MUST_CHECK;
