/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about the maps of a volume that need neither its device nor a path. No state.
 */
#include "node/context.h"

#include <stdint.h>

#include "common/str.h"
#include "volume/context_keys.h"

bool publish_context_given(const struct kvs *map)
{
	return !str_empty(kvs_get(map, PUBLISH_PCI_ADDRESS));
}

enum emulation publish_context_emulation(const struct kvs *map, enum emulation otherwise)
{
	bool nsid = !str_empty(kvs_get(map, PUBLISH_NVME_NSID));
	bool tag = !str_empty(kvs_get(map, PUBLISH_VIRTIOFS_TAG));

	if (nsid == tag)
		return otherwise;
	return tag ? EMULATION_VIRTIOFS : EMULATION_NVME;
}

static int parse_nvme(const struct kvs *map, struct device_want *want, struct err *err)
{
	const char *nsid = kvs_get(map, PUBLISH_NVME_NSID);
	const char *capacity = kvs_get(map, PUBLISH_CAPACITY);
	struct err ignored = ERR_INIT;
	uint64_t n = 0;

	if (str_empty(nsid))
		return err_set(err, ERR_INVALID, "PublishContext.nvmeNsID: field is required");
	if (parse_u64("", nsid, &n, &ignored) || n == 0 || n > UINT32_MAX)
		return err_set(err, ERR_INVALID,
		               "PublishContext.nvmeNsID contains invalid NVME NS ID");
	want->nsid = (uint32_t)n;
	want->uuid = kvs_get_or(map, PUBLISH_NVME_UUID, "");
	if (str_empty(capacity))
		return 0;
	return parse_u64("PublishContext." PUBLISH_CAPACITY, capacity, &want->capacity, err);
}

/* The capacity is a quota of the share: the device has no size that could be compared. */
static int parse_virtiofs(const struct kvs *map, struct device_want *want, struct err *err)
{
	want->tag = kvs_get_or(map, PUBLISH_VIRTIOFS_TAG, "");
	if (!*want->tag)
		return err_set(err, ERR_INVALID, "PublishContext.virtioFSTag: field is required");
	if (device_tag_check(want->tag, err))
		return err_wrap(err, "PublishContext.virtioFSTag");
	/* The DPU has no VFs that share files. */
	want->function = DEVICE_FUNCTION_PF;
	return 0;
}

int publish_context_parse(const struct kvs *map, enum emulation expected, struct device_want *ret,
                          struct err *err)
{
	struct device_want want = {
		.volume_id = "", /* error texts of the callers name it already */
		.pci = kvs_get_or(map, PUBLISH_PCI_ADDRESS, ""),
		.vuid = kvs_get_or(map, PUBLISH_FUNC_VUID, ""),
		.uuid = "",
		.emulation = publish_context_emulation(map, expected),
	};

	if (str_empty(want.pci))
		return err_set(err, ERR_INVALID,
		               "PublishContext.pciDeviceAddress: field is required");
	if (!str_empty(kvs_get(map, PUBLISH_NVME_NSID)) &&
	    !str_empty(kvs_get(map, PUBLISH_VIRTIOFS_TAG)))
		return err_set(
			err, ERR_INVALID,
			"PublishContext: nvmeNsID and virtioFSTag are both given; a volume is "
			"an NVMe namespace or a virtio-fs share");
	if (want.emulation == EMULATION_VIRTIOFS ? parse_virtiofs(map, &want, err)
	                                         : parse_nvme(map, &want, err))
		return -1;
	*ret = want;
	return 0;
}

int context_check_id(const char *id, struct err *err)
{
	if (str_empty(id))
		return err_set(err, ERR_INVALID, "VolumeId: field is required");
	for (const char *p = id; *p; p++)
		if (*p == '/')
			return err_set(err, ERR_INVALID, "VolumeId: \"%s\" has a slash", id);
	if (str_eq(id, ".") || str_eq(id, ".."))
		return err_set(err, ERR_INVALID, "VolumeId: \"%s\" is no name", id);
	return 0;
}

enum emulation context_kind(const struct node *n, const struct kvs *volume_context,
                            const struct kvs *publish_context)
{
	return publish_context_emulation(publish_context,
	                                 volume_params_emulation(volume_context, n->o.emulation));
}

int context_check(const struct node *n, const struct kvs *volume_context,
                  const struct kvs *publish_context, const struct volume_cap *cap,
                  struct volume_params *ret, struct err *err)
{
	const char *fs_type = cap->type == ACCESS_MOUNT ? cap->fs_type : NULL;
	enum emulation kind = context_kind(n, volume_context, publish_context);

	if (str_eq(kvs_get(volume_context, PARAM_EPHEMERAL), "true"))
		return err_set(err, ERR_INVALID,
		               "inline volumes are not supported: volumes are made on the DPU, by "
		               "the controller; use a generic ephemeral volume");
	if (volume_params_parse(volume_context, kind, fs_type, ret, err))
		return err_wrap(err, "VolumeContext");
	return 0;
}

int context_want(const struct kvs *publish_context, const struct volume_params *p,
                 struct device_want *ret, struct err *err)
{
	if (publish_context_parse(publish_context, p->emulation, ret, err))
		return -1;
	if (ret->emulation != p->emulation)
		return err_set(err, ERR_INVALID,
		               "VolumeContext." PARAM_EMULATION
		               " is %s, but the publish context leads to %s",
		               emulation_name(p->emulation), emulation_name(ret->emulation));
	/* Without function keys the volume is on whatever function DPF has published. */
	if (p->function_given)
		ret->function = p->pf ? DEVICE_FUNCTION_PF : DEVICE_FUNCTION_VF;
	return 0;
}
