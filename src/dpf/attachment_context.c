/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the publish context. An attachment whose status is incomplete is not ready yet, so no value
 * that could name another device is passed on.
 */
#include "dpf/attachment_context.h"

#include <string.h>

#include "common/limits.h"
#include "common/log.h"
#include "dpf/conditions.h"
#include "volume/publish_context.h"

/* Part of a DPF message: "DPUAttach not ready: ", "ControllerAttach not ready: ". */
#define STALE_MESSAGE "Attach not ready"

/*
 * Returns true for the address that DPF publishes while the host is still booting, with or without
 * a domain.
 */
static bool is_no_address(const char *pci)
{
	return str_eq(pci, "00:00.0") || str_has_suffix(pci, ":00:00.0");
}

/* Returns the missing part of a disk's attachment; NULL if it is complete. */
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

/* Like missing_nvme(), but for a share. */
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
		missing = "status.dpu.pciAddress is 00:00.0, which is not a function's address (is "
			  "the host still booting?)";
	else
		missing = kind == EMULATION_VIRTIOFS ? missing_virtiofs(a) : missing_nvme(a);
	if (missing)
		str_add(why, missing);
	return !missing;
}

bool attachment_is_stale(const struct json *object, const struct dpu_attachment *a, struct str *why)
{
	if (!condition_holds(object, CONDITION_DPU_ATTACHED) || !strstr(a->message, STALE_MESSAGE))
		return false;
	str_add(why, "status.dpu is from before DPUAttached was True");
	return true;
}

int attachment_publish_context(const struct dpu_attachment *a, enum emulation kind,
                               int64_t capacity, const char *format_node, struct arena *arena,
                               struct kvs *ret, struct err *err)
{
	const struct publish_context c = {
		.volume = a->key.volume,
		.attachment = a->key.name,
		.attachment_uid = a->key.uid,
		.attachment_created = a->key.created,
		.format_node = format_node,
		.pci = a->pci_address,
		.vuid = a->func_vuid,
		.emulation = kind,
		.nsid = a->nvme_nsid > 0 ? (uint64_t)a->nvme_nsid : 0,
		.uuid = a->nvme_uuid,
		.tag = a->virtiofs_tag,
		.capacity = capacity > 0 ? (uint64_t)capacity : 0,
	};
	struct kv *vendor = arena_alloc(arena, (json_count(a->metadata) + 1) * sizeof(*vendor));
	const char *cut;
	size_t n = 0;

	json_foreach (entry, a->metadata)
		vendor[n++] = (struct kv) { arena_strdup(arena, json_name(entry)),
			                    arena_strdup(arena, json_text(entry)) };
	if (publish_context_write(&c, &(struct kvs) { vendor, n }, arena, ret, &cut, err))
		return err_wrap(err, "DPUVolumeAttachment %s", a->key.name);
	if (cut)
		log_limited(
			LOG_WARNING, 60,
			"DPUVolumeAttachment %s: status.attachmentMetadata does not fit into the "
			"%d bytes of a publish context; left out, longest first: %s",
			a->key.name, LIMIT_FIELD_MAP, cut);
	return 0;
}
