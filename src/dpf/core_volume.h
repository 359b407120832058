/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes' own objects of a volume: PersistentVolume and VolumeAttachment. They are decoded
 * leniently, for a report: a member of a wrong type counts as absent.
 */
#pragma once

#include <stdbool.h>

#include "common/json.h"
#include "kube/kube.h"

extern const struct kube_kind persistent_volume_kind;
extern const struct kube_kind volume_attachment_kind;
extern const struct kube_kind persistent_volume_claim_kind;
extern const struct kube_kind pod_kind;

/* Strings point into the object; "" when absent. */
struct persistent_volume {
	const char *name, *driver, *handle, *phase, *reclaim_policy;
	const char *claim_namespace, *claim_name;
	bool deleting;
};
struct persistent_volume persistent_volume_decode(const struct json *object);

struct volume_attachment {
	const char *name, *attacher, *node, *persistent_volume;
	const char *error; /* why the last attach or detach failed */
	bool attached, deleting;
};
struct volume_attachment volume_attachment_decode(const struct json *object);
