/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a volume's contexts that need neither its device nor a path. No state. */
#include "node/context.h"

#include "common/str.h"
#include "volume/context_keys.h"
#include "volume/publish_context.h"

int context_check_id(const char *id, struct err *err)
{
	if (str_empty(id))
		return err_set(err, ERR_INVALID, "VolumeId: field is required");
	for (const char *p = id; *p; p++)
		if (*p == '/')
			return err_set(err, ERR_INVALID, "VolumeId: \"%s\" has a slash", id);
	if (str_eq(id, ".") || str_eq(id, ".."))
		return err_set(err, ERR_INVALID, "VolumeId: \"%s\" is not a valid volume name", id);
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
		               "inline volumes are not supported: the controller creates volumes "
		               "on the DPU; use a generic ephemeral volume");
	if (volume_params_parse(volume_context, kind, fs_type, ret, err))
		return err_wrap(err, "VolumeContext");
	return 0;
}

int context_want(const struct kvs *publish_context, const struct volume_params *p,
                 struct device_want *ret, struct err *err)
{
	struct publish_context c;
	bool share;

	if (publish_context_read(publish_context, p->emulation, &c, err))
		return -1;
	share = c.emulation == EMULATION_VIRTIOFS;
	if (share && device_tag_check(c.tag, err))
		return err_wrap(err, "PublishContext.virtioFSTag");
	if (c.emulation != p->emulation)
		return err_set(err, ERR_INVALID,
		               "VolumeContext." PARAM_EMULATION
		               " is %s, but the publish context leads to %s",
		               emulation_name(p->emulation), emulation_name(c.emulation));
	*ret = (struct device_want) {
		.volume_id = "", /* the callers' messages already name the volume */
		.pci = c.pci,
		.vuid = c.vuid,
		.nsid = (uint32_t)c.nsid,
		.uuid = c.uuid,
		.capacity = c.capacity,
		.tag = share ? c.tag : NULL,
		/* The DPU emulates virtio-fs devices only as PFs. */
		.function = share ? DEVICE_FUNCTION_PF : DEVICE_FUNCTION_ANY,
		.emulation = c.emulation,
	};
	/* Without function keys, any function that DPF has published is accepted. */
	if (p->function_given)
		ret->function = p->pf ? DEVICE_FUNCTION_PF : DEVICE_FUNCTION_VF;
	return 0;
}
