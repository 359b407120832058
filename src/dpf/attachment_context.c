/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the publish context. Nothing that could name another device is passed on: an attachment
 * whose status is incomplete is not ready yet.
 */
#include "dpf/attachment_context.h"

#include "volume/publish_context.h"

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

struct kvs attachment_publish_context(const struct dpu_attachment *a, enum emulation kind,
                                      int64_t capacity, struct arena *arena)
{
	const struct publish_context c = {
		.volume = a->key.volume,
		.attachment = a->key.name,
		.attachment_uid = a->key.uid,
		.pci = a->pci_address,
		.vuid = a->func_vuid,
		.emulation = kind,
		.nsid = a->nvme_nsid > 0 ? (uint64_t)a->nvme_nsid : 0,
		.uuid = a->nvme_uuid,
		.tag = a->virtiofs_tag,
		.capacity = capacity > 0 ? (uint64_t)capacity : 0,
	};
	struct kv *vendor = arena_alloc(arena, (json_count(a->metadata) + 1) * sizeof(*vendor));
	size_t n = 0;

	json_foreach (entry, a->metadata)
		vendor[n++] = (struct kv) { arena_strdup(arena, json_name(entry)),
			                    arena_strdup(arena, json_text(entry)) };
	return publish_context_write(&c, &(struct kvs) { vendor, n }, arena);
}
