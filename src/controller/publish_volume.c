/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A normal attach reads nothing from etcd, because a state from the API server's cache is
 * sufficient. This state may be older than other reads, usually by milliseconds. So the volume may
 * have been deleted or changed without being noticed, but that may happen right after any read. The
 * attachment is then awaited until DPF has attached it, and the next call sees the change. If the
 * volume has grown, the publish context has the earlier, smaller capacity, which the node takes as
 * the minimum size of the device, as for a volume that grows later.
 *
 * A cached state does not justify a refusal, because a refusal may be final.
 */
#include "controller/publish_volume.h"

#include "controller/volume_provenance.h"
#include "controller/volume_read.h"
#include "volume/context_keys.h"

/*
 * Parses the keys of the volume context that an attach needs; the node parses the others. The kind
 * comes from the volume, not from the context, because the Go plugin and users do not write it there.
 */
static int read_context(const struct kvs *context, const struct dpu_volume *v,
                        struct volume_params *ret, struct err *err)
{
	static const char *const keys[] = { PARAM_FUNCTION_TYPE, PARAM_HOTPLUG_FUNCTION,
		                            PARAM_EMULATION, PARAM_ENCRYPTION };
	struct kv kept[ARRAY_LEN(keys)];
	struct kvs map = { kept, 0 };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *value = kvs_get(context, keys[i]);

		if (value)
			kept[map.n++] = (struct kv) { keys[i], value };
	}
	if (volume_params_parse(&map, provenance_emulation(v), NULL, ret, err))
		return err_wrap(err, "invalid function type config");
	if (ret->emulation == provenance_emulation(v))
		return 0;
	return err_set(err, ERR_INVALID,
	               "VolumeContext: " PARAM_EMULATION
	               " is %s, but volume %s has volumeMode %s, which is %s; correct the "
	               "PersistentVolume",
	               emulation_name(ret->emulation), v->name, v->block ? "Block" : "Filesystem",
	               emulation_name(provenance_emulation(v)));
}

static int check_published_volume(const struct dpu_volume *v, const struct attach_request *r,
                                  struct err *err)
{
	char have[64];

	if (volume_cap_check(&r->cap, provenance_emulation(v), "VolumeCapability", err))
		return -1;
	if (v->deleting)
		return err_set(err, ERR_ABORTED, "volume %s is being deleted", v->name);
	if (provenance_check_type(v, r->cap.type, err))
		return -1;
	if (!provenance_allows(v, &r->cap))
		return err_set(
			err, ERR_INVALID,
			"VolumeCapability.AccessMode: volume %s has %s, which does not allow %s",
			v->name, dpu_access_modes_text(v->access_modes, have),
			access_mode_name(r->cap.mode));
	return 0;
}

static int check_publish(const struct dpu_volume *v, const struct attach_request *r,
                         struct volume_params *ret, struct err *err)
{
	if (check_published_volume(v, r, err))
		return -1;
	return read_context(&r->volume_context, v, ret, err);
}

/* An additional return value: a refusal needs a read from etcd. */
enum { NOT_PROVEN = 1 };

static int publish_by_cache(const struct controller *c, const struct attach_request *r,
                            struct deadline d, struct json **ret_object, struct dpu_volume *ret,
                            struct volume_params *ret_params, struct err *err)
{
	struct err refused = ERR_INIT;
	int rc = volume_read_cached(c, r->volume, d, ret_object, err);

	if (rc < 0)
		return -1;
	if (rc || dpu_volume_decode(*ret_object, ret, &refused) || !ret->capacity ||
	    check_publish(ret, r, ret_params, &refused))
		return NOT_PROVEN;
	return 0;
}

int publish_volume(const struct controller *c, const struct attach_request *r, struct deadline d,
                   struct json **ret_object, struct dpu_volume *ret,
                   struct volume_params *ret_params, struct err *err)
{
	int rc = publish_by_cache(c, r, d, ret_object, ret, ret_params, err);

	if (rc != NOT_PROVEN)
		return rc;
	json_free(TAKE(*ret_object));
	if (volume_read(c, r->volume, d, ret_object, ret, err))
		return -1;
	return check_publish(ret, r, ret_params, err);
}
