/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts DPF's DPUVolumeAttachment (storage.dpu.nvidia.com/v1alpha1) from JSON to a plain struct,
 * and back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "kube/kube.h"

extern const struct kube_kind dpu_attachment_kind;

/* Which volume is attached to which node; "" when absent. Strings point into the object. */
struct dpu_attachment_key {
	const char *name, *uid;
	const char *created; /* metadata.creationTimestamp */
	const char *node, *volume;
	bool deleting;
	bool attached; /* status.dpuAttached; stays true once set, unlike the condition */
};

/*
 * Decodes the key leniently, for lists with objects of other creators: a member of a wrong type
 * counts as absent.
 */
struct dpu_attachment_key dpu_attachment_key(const struct json *object);

/* Strings and trees point into the decoded object; strings are "" and trees NULL when absent. */
struct dpu_attachment {
	struct dpu_attachment_key key;
	const char *function_type; /* "vf" or "pf" */
	bool hotplug;
	bool attached; /* as in `key` */
	const char *message;
	const struct json *metadata; /* status.attachmentMetadata */
	bool has_dpu, has_nvme, has_virtiofs;
	const char *pci_address, *func_vuid, *nvme_uuid, *virtiofs_tag;
	int64_t nvme_nsid; /* 0: none */
};

/* Returns -1 (UNAVAILABLE) if a member has the wrong type; *ret has all other members. */
int dpu_attachment_decode(const struct json *object, struct dpu_attachment *ret, struct err *err)
	MUST_CHECK;
/* Returns a new object of that name; the caller adds labels. */
struct json *dpu_attachment_encode(const char *name, const char *node, const char *volume, bool pf,
                                   bool hotplug);
