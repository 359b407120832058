/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publish context leads the node to its device. Nothing that could name another device is
 * passed on: an incomplete status is not ready yet, and a key of attachmentMetadata, which the
 * vendor fills, never takes the place of ours.
 */
#include "dpf/publish_context.h"

#include "common/cleanup.h"
#include "volume/context_keys.h"

#include <assert.h>
#include <inttypes.h>

/* The address that DPF publishes while the host is still booting; with or without a domain. */
static bool is_no_address(const char *pci)
{
	return str_eq(pci, "00:00.0") || str_has_suffix(pci, ":00:00.0");
}

/* What the attachment of a disk lacks; NULL: nothing. */
static const char *missing_nvme(const struct dpu_attachment *a)
{
	if (!a->has_nvme)
		return a->has_virtiofs
		               ? "status.dpu.nvmeAttrs is missing (the DPU shows a virtio-fs "
		                 "device, status.dpu.virtioFSAttrs, but the volume has volumeMode "
		                 "Block)"
		               : "status.dpu.nvmeAttrs is missing";
	return a->nvme_nsid <= 0 ? "status.dpu.nvmeAttrs.namespaceID is missing" : NULL;
}

/* The same of a share. */
static const char *missing_virtiofs(const struct dpu_attachment *a)
{
	if (!a->has_virtiofs)
		return a->has_nvme ? "status.dpu.virtioFSAttrs is missing (the DPU shows an NVMe "
		                     "namespace, status.dpu.nvmeAttrs, but the volume has "
		                     "volumeMode Filesystem)"
		                   : "status.dpu.virtioFSAttrs is missing";
	return *a->virtiofs_tag ? NULL : "status.dpu.virtioFSAttrs.filesystemTag is missing";
}

bool attachment_is_complete(const struct dpu_attachment *a, enum emulation kind, struct str *why)
{
	const char *missing;

	if (!a->has_dpu)
		missing = "status.dpu is missing";
	else if (!*a->pci_address)
		missing = "status.dpu.pciAddress is missing";
	else if (is_no_address(a->pci_address))
		missing =
			"status.dpu.pciAddress is 00:00.0, which is no address (is the host still "
			"booting?)";
	else
		missing = kind == EMULATION_VIRTIOFS ? missing_virtiofs(a) : missing_nvme(a);
	if (missing)
		str_add(why, missing);
	return !missing;
}

/* Keys that only the driver sets. Also when it sets none: the node would believe a vendor's. */
static bool is_reserved(const char *key)
{
	static const char *const reserved[] = {
		PUBLISH_VOLUME_NAME,  PUBLISH_ATTACHMENT_NAME, PUBLISH_PCI_ADDRESS,
		PUBLISH_NVME_NSID,    PUBLISH_NVME_UUID,       PUBLISH_FUNC_VUID,
		PUBLISH_VIRTIOFS_TAG,
	};

	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (str_eq(reserved[i], key))
			return true;
	return str_has_prefix(key, DRIVER_PREFIX);
}

static void add(struct kv *list, size_t *n, const char *key, const char *value, struct arena *arena)
{
	if (*value)
		list[(*n)++] = (struct kv) { key, arena_strdup(arena, value) };
}

static void add_device(struct kv *list, size_t *n, const struct dpu_attachment *a,
                       enum emulation kind, struct arena *arena)
{
	add(list, n, PUBLISH_PCI_ADDRESS, a->pci_address, arena);
	if (kind == EMULATION_VIRTIOFS) {
		add(list, n, PUBLISH_VIRTIOFS_TAG, a->virtiofs_tag, arena);
	} else {
		add(list, n, PUBLISH_NVME_NSID, arena_printf(arena, "%" PRId64, a->nvme_nsid),
		    arena);
		add(list, n, PUBLISH_NVME_UUID, a->nvme_uuid, arena);
	}
	add(list, n, PUBLISH_FUNC_VUID, a->func_vuid, arena);
}

struct kvs publish_context(const struct dpu_attachment *a, enum emulation kind, int64_t capacity,
                           struct arena *arena)
{
	struct kv *list = arena_alloc(arena, (9 + json_count(a->metadata)) * sizeof(*list));
	size_t n = 0;

	assert(*a->pci_address &&
	       (kind == EMULATION_VIRTIOFS ? *a->virtiofs_tag != '\0' : a->nvme_nsid > 0));
	add(list, &n, PUBLISH_VOLUME_NAME, a->key.volume, arena);
	add(list, &n, PUBLISH_ATTACHMENT_NAME, a->key.name, arena);
	add_device(list, &n, a, kind, arena);
	if (capacity > 0)
		add(list, &n, PUBLISH_CAPACITY, arena_printf(arena, "%" PRId64, capacity), arena);
	add(list, &n, PUBLISH_ATTACHMENT_UID, a->key.uid, arena);
	json_foreach (entry, a->metadata)
		if (!is_reserved(json_name(entry)))
			list[n++] = (struct kv) { arena_strdup(arena, json_name(entry)),
				                  arena_strdup(arena, json_text(entry)) };
	return (struct kvs) { list, n };
}
