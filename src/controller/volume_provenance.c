/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes, reads and compares the request that created a DPUVolume. The CR has fields for policy,
 * parameters, modes and size; the name, access type, function and the driver's keys are in
 * annotations. An object without annotations was created by the Go plugin or by hand. Properties
 * that such an object does not record match any request.
 */
#include "controller/volume_provenance.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/mem.h"
#include "volume/context_keys.h"

/*
 * Annotations with the values of keys from the sidecar's --extra-create-metadata; never compared.
 */
static const struct {
	const char *parameter, *annotation;
} metadata_keys[] = {
	{ PARAM_PVC_NAME, ANNOTATION_PVC_NAME },
	{ PARAM_PVC_NAMESPACE, ANNOTATION_PVC_NAMESPACE },
	{ PARAM_PV_NAME, ANNOTATION_PV_NAME },
};

static const char *function_word(const struct volume_params *p)
{
	return p->pf ? "pf" : "vf";
}

static const char *bool_word(bool b)
{
	return b ? "true" : "false";
}

enum emulation provenance_emulation(const struct dpu_volume *v)
{
	return v->block ? EMULATION_NVME : EMULATION_VIRTIOFS;
}

const char *provenance_get(const struct dpu_volume *v, const char *annotation)
{
	return json_text(json_member(v->annotations, annotation));
}

/* ---- writing ---- */

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct kv *)a)->key, ((const struct kv *)b)->key);
}

/*
 * A hash of the fields that go into the spec. The parameters' values are included only as a hash.
 */
static void request_hash(const struct volume_request *r, char hex[33])
{
	struct str text AUTO(str_clear) = STR_INIT(LIMIT_RPC_MESSAGE);
	size_t n = r->vendor_parameters.n;
	struct kv *sorted AUTO(free) = xcalloc(n + 1, sizeof(*sorted));

	for (size_t i = 0; i < n; i++)
		sorted[i] = r->vendor_parameters.v[i];
	qsort(sorted, n, sizeof(*sorted), compare_keys);
	str_addf(&text, "%u %" PRId64 " %" PRId64 " %d %s\n", r->access_modes,
	         volume_request_bytes(r), r->limit, r->params.emulation == EMULATION_NVME,
	         r->policy);
	for (size_t i = 0; i < n; i++)
		str_addf(&text, "%s=%s\n", sorted[i].key, sorted[i].value);
	fnv128_hex(text.ptr, "", hex);
}

static void encode_annotations(struct json *notes, const struct volume_request *r)
{
	char hash[33];

	request_hash(r, hash);
	json_set_str(notes, ANNOTATION_NAME, r->name);
	json_set_str(notes, ANNOTATION_REQUEST, hash);
	json_set_str(notes, ANNOTATION_ACCESS_TYPE, access_type_name(volume_request_type(r)));
	json_set_str(notes, ANNOTATION_FUNCTION_TYPE, function_word(&r->params));
	json_set_str(notes, ANNOTATION_HOTPLUG, bool_word(r->params.hotplug));
	if (r->params.function_given)
		json_set_str(notes, ANNOTATION_CONTEXT_FUNCTION, "true");
	for (size_t i = 0; i < r->parameters.n; i++)
		if (volume_param_is_prefixed(r->parameters.v[i].key))
			json_set_str(notes, r->parameters.v[i].key, r->parameters.v[i].value);
	for (size_t i = 0; i < ARRAY_LEN(metadata_keys); i++)
		json_set_str(notes, metadata_keys[i].annotation,
		             kvs_get(&r->parameters, metadata_keys[i].parameter));
}

struct json *provenance_encode(const struct controller *c, const char *object_name,
                               const struct volume_request *r)
{
	struct dpu_volume_spec spec = {
		.policy = r->policy,
		.parameters = r->vendor_parameters,
		.access_modes = r->access_modes,
		.requested = volume_request_bytes(r),
		.limit = r->limit,
		.block = r->params.emulation == EMULATION_NVME,
	};
	struct json *object = dpu_volume_encode(object_name, &spec);
	struct json *metadata = json_sub(object, "metadata");

	json_set_str(json_sub(metadata, "labels"), LABEL_MANAGED_BY, c->driver_name);
	encode_annotations(json_sub(metadata, "annotations"), r);
	return object;
}

/* ---- comparing ---- */

bool provenance_is_of_request(const struct dpu_volume *v, const struct volume_request *r)
{
	char hash[33];

	request_hash(r, hash);
	return str_eq(provenance_get(v, ANNOTATION_REQUEST), hash);
}

enum provenance_owner provenance_owner(const struct controller *c, const struct dpu_volume *v,
                                       const char *name)
{
	const char *recorded = provenance_get(v, ANNOTATION_NAME);

	if (!recorded)
		return PROVENANCE_UNMARKED;
	if (!str_eq(recorded, name))
		return PROVENANCE_OTHER;
	return str_eq(json_text(json_member(v->labels, LABEL_MANAGED_BY)), c->driver_name)
	               ? PROVENANCE_OWN
	               : PROVENANCE_UNMARKED;
}

/* Always returns false. `is` and `asked` are NULL or "" if there is no value. */
static bool refuse_value(struct str *why, const char *what, const char *is, const char *asked)
{
	str_addf(why, "%s: have %s, requested %s", what, str_empty(is) ? "nothing" : is,
	         str_empty(asked) ? "nothing" : asked);
	return false;
}

static bool parameters_fit(const struct dpu_volume *v, const struct volume_request *r,
                           struct str *why)
{
	for (size_t i = 0; i < r->vendor_parameters.n; i++) {
		const struct kv *kv = &r->vendor_parameters.v[i];
		const char *have = json_text(json_member(v->parameters, kv->key));

		if (!str_eq(have, kv->value)) {
			str_addf(why, "parameter \"%s\" %s", kv->key,
			         have ? "differs" : "is not set");
			return false;
		}
	}
	/*
	 * The Go plugin also writes the sidecar's own keys to spec.parameters. These keys name the
	 * claim and not the volume, so they are never compared.
	 */
	json_foreach (member, v->parameters)
		if (!str_has_prefix(json_name(member), PARAM_SIDECAR_PREFIX) &&
		    !kvs_get(&r->vendor_parameters, json_name(member))) {
			str_addf(why, "unexpected parameter \"%s\"", json_name(member));
			return false;
		}
	return true;
}

/* A choice that was not recorded matches anything. */
static bool choice_fits(const struct dpu_volume *v, const char *annotation, const char *asked,
                        struct str *why)
{
	const char *have = provenance_get(v, annotation);

	return !have || str_eq(have, asked) || refuse_value(why, annotation, have, asked);
}

static bool prefixed_keys_fit(const struct dpu_volume *v, const struct volume_request *r,
                              struct str *why)
{
	if (!provenance_get(v, ANNOTATION_NAME))
		return true;
	for (size_t i = 0; i < r->parameters.n; i++) {
		const struct kv *kv = &r->parameters.v[i];

		if (volume_param_is_prefixed(kv->key) &&
		    !str_eq(provenance_get(v, kv->key), kv->value))
			return refuse_value(why, kv->key, provenance_get(v, kv->key), kv->value);
	}
	json_foreach (note, v->annotations)
		if (volume_param_is_prefixed(json_name(note)) &&
		    !kvs_get(&r->parameters, json_name(note)))
			return refuse_value(why, json_name(note), json_text(note), NULL);
	return true;
}

static bool modes_fit(const struct dpu_volume *v, const struct volume_request *r, struct str *why)
{
	char have[64], asked[64];

	if ((r->access_modes & ~v->access_modes) == 0)
		return true;
	return refuse_value(why, "accessModes", dpu_access_modes_text(v->access_modes, have),
	                    dpu_access_modes_text(r->access_modes, asked));
}

bool provenance_capacity_fits(const struct dpu_volume *v, int64_t required, int64_t limit)
{
	int64_t have = v->capacity ? v->capacity : v->requested;

	return have >= required && (limit <= 0 || have <= limit);
}

enum provenance_size provenance_size(const struct dpu_volume *v, const struct volume_request *r,
                                     struct str *why)
{
	bool same = v->requested == volume_request_bytes(r) && v->limit == r->limit;

	/* A volume of exactly this range that has no capacity yet is compared later. */
	if ((same && !v->capacity) || provenance_capacity_fits(v, r->required, r->limit))
		return PROVENANCE_SIZE_FITS;
	str_addf(why,
	         "its size is %" PRId64 " (requested: at least %" PRId64 ", limit %" PRId64 ")",
	         v->capacity ? v->capacity : v->requested, r->required, r->limit);
	return same ? PROVENANCE_SIZE_WRONG : PROVENANCE_SIZE_OTHER;
}

bool provenance_fits(const struct dpu_volume *v, const struct volume_request *r, struct str *why)
{
	bool block = r->params.emulation == EMULATION_NVME;

	if (!str_eq(v->policy, r->policy))
		return refuse_value(why, "policy", v->policy, r->policy);
	if (v->block != block)
		return refuse_value(why, "volumeMode", v->block ? "Block" : "Filesystem",
		                    block ? "Block" : "Filesystem");
	return parameters_fit(v, r, why) && modes_fit(v, r, why) &&
	       choice_fits(v, ANNOTATION_ACCESS_TYPE, access_type_name(volume_request_type(r)),
	                   why) &&
	       choice_fits(v, ANNOTATION_FUNCTION_TYPE, function_word(&r->params), why) &&
	       choice_fits(v, ANNOTATION_HOTPLUG, bool_word(r->params.hotplug), why) &&
	       prefixed_keys_fit(v, r, why);
}

/* ---- reading back ---- */

int provenance_check_type(const struct dpu_volume *v, enum access_type type, struct err *err)
{
	const char *have = provenance_get(v, ANNOTATION_ACCESS_TYPE);

	if (!have || str_eq(have, access_type_name(type)))
		return 0;
	return err_set(err, ERR_INVALID,
	               "VolumeCapability.AccessType: volume %s was created for access type %s, "
	               "not %s",
	               v->name, have, access_type_name(type));
}

/*
 * Allows a use that is narrower than the one for which the volume was created: a use on fewer
 * nodes, or only for reading, is harmless. So ReadWriteMany allows every mode, and ReadWriteOnce and
 * ReadOnlyMany allow one reader. A use that is not narrower is refused: ReadWriteOnce does not
 * allow many readers, and ReadOnlyMany does not allow a writer. A filesystem of an NVMe volume on
 * many nodes needs ReadOnlyMany itself, because writes of others through ReadWriteMany would change
 * the data under the readers' caches.
 */
bool provenance_allows(const struct dpu_volume *v, const struct volume_cap *cap)
{
	static const unsigned allowed_by[] = {
		[MODE_SINGLE_NODE_WRITER] = DPU_READ_WRITE_ONCE,
		[MODE_SINGLE_NODE_SINGLE_WRITER] = DPU_READ_WRITE_ONCE,
		[MODE_SINGLE_NODE_MULTI_WRITER] = DPU_READ_WRITE_ONCE,
		[MODE_SINGLE_NODE_READER_ONLY] = DPU_READ_WRITE_ONCE | DPU_READ_ONLY_MANY,
		[MODE_MULTI_NODE_READER_ONLY] = DPU_READ_ONLY_MANY,
	};
	const unsigned shared = DPU_READ_WRITE_ONCE | DPU_READ_ONLY_MANY;

	if ((v->access_modes & DPU_READ_WRITE_MANY) &&
	    (!v->block || cap->type == ACCESS_BLOCK || !access_mode_is_multi_node(cap->mode)))
		return true;
	/* external-attacher sends this mode for a volume of ReadWriteOnce and ReadOnlyMany. */
	if (cap->mode == MODE_MULTI_NODE_SINGLE_WRITER)
		return (v->access_modes & shared) == shared;
	return (size_t)cap->mode < ARRAY_LEN(allowed_by) &&
	       (v->access_modes & allowed_by[cap->mode]);
}

static void provenance_add(struct kv *list, size_t *n, const char *key, const char *value,
                           struct arena *arena)
{
	if (str_empty(value))
		return;
	list[(*n)++] = (struct kv) { key, arena_strdup(arena, value) };
}

static void provenance_add_function(struct kv *list, size_t *n, const struct dpu_volume *v,
                                    const struct kvs *asked, struct arena *arena)
{
	struct volume_params p;
	struct err ignored = ERR_INIT;

	if (str_eq(provenance_get(v, ANNOTATION_CONTEXT_FUNCTION), "true")) {
		provenance_add(list, n, PARAM_FUNCTION_TYPE,
		               provenance_get(v, ANNOTATION_FUNCTION_TYPE), arena);
		provenance_add(list, n, PARAM_HOTPLUG_FUNCTION,
		               provenance_get(v, ANNOTATION_HOTPLUG), arena);
	} else if (asked && !provenance_get(v, ANNOTATION_NAME) &&
	           !volume_params_parse(asked, provenance_emulation(v), NULL, &p, &ignored) &&
	           p.function_given) {
		provenance_add(list, n, PARAM_FUNCTION_TYPE, function_word(&p), arena);
		provenance_add(list, n, PARAM_HOTPLUG_FUNCTION, bool_word(p.hotplug), arena);
	}
}

struct kvs provenance_context(const struct dpu_volume *v, const struct kvs *asked,
                              struct arena *arena)
{
	size_t room = 5 + json_count(v->annotations) + (asked ? asked->n : 0);
	struct kv *list = arena_alloc(arena, room * sizeof(*list));
	bool marked = provenance_get(v, ANNOTATION_NAME);
	size_t n = 0;

	provenance_add(list, &n, CONTEXT_POLICY_NAME, v->policy, arena);
	provenance_add(list, &n, CONTEXT_VENDOR_NAME, v->vendor, arena);
	provenance_add(list, &n, CONTEXT_VENDOR_PLUGIN, v->vendor_plugin, arena);
	provenance_add_function(list, &n, v, asked, arena);
	if (marked) {
		json_foreach (note, v->annotations)
			if (volume_param_is_prefixed(json_name(note)))
				provenance_add(list, &n, arena_strdup(arena, json_name(note)),
				               json_text(note), arena);
	} else {
		for (size_t i = 0; asked && i < asked->n; i++)
			if (volume_param_is_prefixed(asked->v[i].key))
				provenance_add(list, &n, asked->v[i].key, asked->v[i].value, arena);
	}
	assert(n <= room);
	return (struct kvs) { list, n };
}
