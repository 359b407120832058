/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks CreateVolume's arguments against each other, before any request to the API server. Pure.
 * The order of the checks and their messages are those of the Go plugin, if it has the check.
 */
#include "controller/request.h"

#include <assert.h>

#include "common/cleanup.h"
#include "volume/context_keys.h"
#include "dpf/dpu_volume.h"
#include "common/str.h"
#include "volume/filesystem_size.h"
#include "volume/param_meant.h"

enum access_type volume_request_type(const struct volume_request *r)
{
	return r->caps[0].type;
}

int64_t volume_request_bytes(const struct volume_request *r)
{
	if (r->required > 0)
		return r->required;
	if (r->limit > 0 && r->limit < DEFAULT_VOLUME_BYTES)
		return r->limit;
	return DEFAULT_VOLUME_BYTES;
}

static bool is_writer(enum access_mode mode)
{
	return !access_mode_is_reader_only(mode);
}

/*
 * Checks the rules for all capabilities together, for a volume of this kind; the RPC handler has
 * checked each capability.
 */
static int check_caps(struct volume_request *r, enum emulation kind, struct err *err)
{
	bool writer = false, multi_node = false;

	for (size_t i = 0; i < r->n_caps; i++) {
		const struct volume_cap *cap = &r->caps[i];

		if (cap->type != r->caps[0].type)
			return err_set(err, ERR_INVALID,
			               "VolumeCapabilities[%zu].AccessType: a volume is either a "
			               "filesystem or raw block, not both",
			               i);
		writer |= is_writer(cap->mode);
		multi_node |= access_mode_is_multi_node(cap->mode);
		r->access_modes |= dpu_access_mode(access_mode_cr_name(cap->mode));
	}
	/*
	 * kubelet stages a ReadWriteOnce+ReadOnlyMany volume read-write on every node that has it.
	 */
	if (writer && multi_node && volume_request_type(r) == ACCESS_MOUNT &&
	    kind == EMULATION_NVME)
		return err_set(
			err, ERR_INVALID,
			"VolumeCapabilities: a filesystem that is written on one node cannot be "
			"mounted on others at the same time; request one access mode, or raw "
			"block (volumeMode: Block)");
	return 0;
}

static int check_requested_range(const struct volume_request *r, struct err *err)
{
	char a[64], b[64];

	if (r->required < 0 || r->limit < 0)
		return err_set(err, ERR_INVALID, "CapacityRange: %s is negative",
		               r->required < 0 ? "required_bytes" : "limit_bytes");
	if (r->limit && r->required > r->limit)
		return err_set(err, ERR_RANGE,
		               "CapacityRange: required_bytes %s is more than limit_bytes %s",
		               str_bytes((uint64_t)r->required, a),
		               str_bytes((uint64_t)r->limit, b));
	return 0;
}

static int check_filesystem_size(const struct volume_request *r, const struct volume_cap *cap,
                                 struct err *err)
{
	const char *fs = filesystem_normalise(cap->fs_type);
	uint64_t least = filesystem_least_bytes(fs, &r->params.mkfs);
	const struct mkfs_params no_keys = { 0 };
	char a[64], b[64];

	if ((uint64_t)volume_request_bytes(r) < least)
		return err_set(err, ERR_RANGE,
		               "CapacityRange: %s is too small for %s%s, which needs %s",
		               str_bytes((uint64_t)volume_request_bytes(r), a), fs,
		               least > filesystem_least_bytes(fs, &no_keys)
		                       ? " with the StorageClass's keys"
		                       : "",
		               str_bytes(least, b));
	return 0;
}

/* Returns true if the node creates a filesystem on the volume. */
static bool is_for_mkfs(const struct volume_request *r)
{
	return r->params.emulation == EMULATION_NVME && volume_request_type(r) == ACCESS_MOUNT;
}

/*
 * Refuses a new volume that is only for readers. Such a volume has no filesystem and is never
 * formatted, so the claim would be bound but its pods would never start. With formatPolicy never,
 * or for a share, the backend provides the filesystem.
 */
static int check_readers(const struct volume_request *r, struct err *err)
{
	if (!is_for_mkfs(r) || r->params.format_policy == FORMAT_NEVER)
		return 0;
	for (size_t i = 0; i < r->n_caps; i++)
		if (is_writer(r->caps[i].mode))
			return 0;
	return err_set(
		err, ERR_INVALID,
		"VolumeCapabilities: a new volume has no filesystem, and a read-only volume "
		"(ReadOnlyMany) never gets one; request ReadWriteOnce, or let readers claim a "
		"volume that has been written before (docs/reference/parameters.md, Volumes for readers)");
}

/* Refuses misspellings of these keys. volume_params_parse() refuses those of the other keys. */
static int refuse_slips(const struct kvs *parameters, struct err *err)
{
	static const char *const known[] = { PARAM_POLICY, PARAM_FSTYPE };

	for (size_t i = 0; i < parameters->n; i++)
		if (param_refuse_slip(parameters->v[i].key, known, ARRAY_LEN(known), err))
			return err_wrap(err, "Parameters");
	return 0;
}

static int parse_parameters(const struct controller *c, struct volume_request *r, struct err *err)
{
	if (refuse_slips(&r->parameters, err))
		return -1;
	r->policy = kvs_get_or(&r->parameters, PARAM_POLICY, NULL);
	if (!r->policy)
		return err_set(err, ERR_INVALID, "Parameters." PARAM_POLICY ": field is required");
	for (size_t i = 0; i < r->n_caps; i++) {
		const char *fs = r->caps[i].type == ACCESS_MOUNT ? r->caps[i].fs_type : NULL;

		if (volume_params_parse(&r->parameters, c->emulation, fs, &r->params, err))
			return err_wrap(err, "Parameters");
	}
	return 0;
}

/* Keys that belong neither to the driver nor to the sidecar belong to the vendor. */
static void split_vendor_parameters(struct volume_request *r, struct arena *arena)
{
	struct kv *list = arena_alloc(arena, (r->parameters.n + 1) * sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < r->parameters.n; i++) {
		const char *key = r->parameters.v[i].key;

		if (!str_eq(key, PARAM_POLICY) && !volume_param_is_ours(key) &&
		    !str_has_prefix(key, PARAM_SIDECAR_PREFIX))
			list[n++] = r->parameters.v[i];
	}
	r->vendor_parameters = (struct kvs) { list, n };
}

int volume_request_check(const struct controller *c, struct volume_request *r, struct arena *arena,
                         struct err *err)
{
	enum emulation kind = volume_params_emulation(&r->parameters, c->emulation);

	assert(r->n_caps > 0);
	r->access_modes = 0;
	if (check_caps(r, kind, err) || parse_parameters(c, r, err) || check_readers(r, err) ||
	    check_requested_range(r, err))
		return -1;
	for (size_t i = 0; is_for_mkfs(r) && i < r->n_caps; i++)
		if (check_filesystem_size(r, &r->caps[i], err))
			return -1;
	split_vendor_parameters(r, arena);
	return 0;
}
