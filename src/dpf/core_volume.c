/* SPDX-License-Identifier: Apache-2.0 */
/* Reads PersistentVolume and VolumeAttachment; writes neither. Pure. */
#include "dpf/core_volume.h"

const struct kube_kind persistent_volume_kind = {
	.group = "",
	.version = "v1",
	.plural = "persistentvolumes",
	.kind = "PersistentVolume",
};

const struct kube_kind volume_attachment_kind = {
	.group = "storage.k8s.io",
	.version = "v1",
	.plural = "volumeattachments",
	.kind = "VolumeAttachment",
};

const struct kube_kind persistent_volume_claim_kind = {
	.group = "",
	.version = "v1",
	.plural = "persistentvolumeclaims",
	.kind = "PersistentVolumeClaim",
};

const struct kube_kind pod_kind = {
	.group = "",
	.version = "v1",
	.plural = "pods",
	.kind = "Pod",
};

static const char *text_or_empty(const struct json *object, const char *path)
{
	const char *s = json_str(object, path);

	return s ? s : "";
}

struct persistent_volume persistent_volume_decode(const struct json *object)
{
	return (struct persistent_volume) {
		.name = text_or_empty(object, "metadata.name"),
		.driver = text_or_empty(object, "spec.csi.driver"),
		.handle = text_or_empty(object, "spec.csi.volumeHandle"),
		.phase = text_or_empty(object, "status.phase"),
		.reclaim_policy = text_or_empty(object, "spec.persistentVolumeReclaimPolicy"),
		.claim_namespace = text_or_empty(object, "spec.claimRef.namespace"),
		.claim_name = text_or_empty(object, "spec.claimRef.name"),
		.deleting = json_at(object, "metadata.deletionTimestamp") != NULL,
	};
}

struct volume_attachment volume_attachment_decode(const struct json *object)
{
	struct volume_attachment a = {
		.name = text_or_empty(object, "metadata.name"),
		.attacher = text_or_empty(object, "spec.attacher"),
		.node = text_or_empty(object, "spec.nodeName"),
		.persistent_volume = text_or_empty(object, "spec.source.persistentVolumeName"),
		.error = text_or_empty(object, "status.detachError.message"),
		.deleting = json_at(object, "metadata.deletionTimestamp") != NULL,
	};
	struct err ignored = ERR_INIT;

	if (!*a.error)
		a.error = text_or_empty(object, "status.attachError.message");
	if (json_get_bool(object, "status.attached", &a.attached, &ignored))
		a.attached = false;
	return a;
}
