/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publish context leads the node to its device. Nothing that could name another device is
 * passed on: an incomplete status is not ready yet, and a key of attachmentMetadata, which the
 * vendor fills, never takes the place of ours.
 */
#include "controller/publish_context.h"

#include "common/cleanup.h"
#include "volume/context_keys.h"

#include <assert.h>
#include <inttypes.h>

/* The address that DPF publishes while the host is still booting; with or without a domain. */
static bool is_no_address(const char *pci)
{
	return str_eq(pci, "00:00.0") || str_has_suffix(pci, ":00:00.0");
}

bool attachment_is_complete(const struct dpu_attachment *a, struct str *why)
{
	const char *missing = NULL;

	if (!a->has_dpu)
		missing = "status.dpu is missing";
	else if (!*a->pci_address)
		missing = "status.dpu.pciAddress is missing";
	else if (is_no_address(a->pci_address))
		missing =
			"status.dpu.pciAddress is 00:00.0, which is no address (is the host still "
			"booting?)";
	else if (!a->has_nvme)
		missing = "status.dpu.nvmeAttrs is missing";
	else if (a->nvme_nsid <= 0)
		missing = "status.dpu.nvmeAttrs.namespaceID is missing";
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

struct kvs publish_context(const struct dpu_attachment *a, int64_t capacity, struct arena *arena)
{
	struct kv *list = arena_alloc(arena, (9 + json_count(a->metadata)) * sizeof(*list));
	size_t n = 0;

	assert(*a->pci_address && a->nvme_nsid > 0);
	add(list, &n, PUBLISH_VOLUME_NAME, a->key.volume, arena);
	add(list, &n, PUBLISH_ATTACHMENT_NAME, a->key.name, arena);
	add(list, &n, PUBLISH_PCI_ADDRESS, a->pci_address, arena);
	add(list, &n, PUBLISH_NVME_NSID, arena_printf(arena, "%" PRId64, a->nvme_nsid), arena);
	add(list, &n, PUBLISH_NVME_UUID, a->nvme_uuid, arena);
	add(list, &n, PUBLISH_FUNC_VUID, a->func_vuid, arena);
	if (capacity > 0)
		add(list, &n, PUBLISH_CAPACITY, arena_printf(arena, "%" PRId64, capacity), arena);
	add(list, &n, PUBLISH_ATTACHMENT_UID, a->key.uid, arena);
	json_foreach (entry, a->metadata)
		if (!is_reserved(json_name(entry)))
			list[n++] = (struct kv) { arena_strdup(arena, json_name(entry)),
				                  arena_strdup(arena, json_text(entry)) };
	return (struct kvs) { list, n };
}
