/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a request with an existing volume: access modes, access type, and each given key of
 * context and parameters. If a property is not recorded, because the Go plugin or a user created
 * the volume, it matches any request. One read, no write.
 */
#include "controller/validate.h"

#include "volume/context_keys.h"
#include "common/str.h"
#include "controller/volume_provenance.h"
#include "controller/volume_read.h"

static bool is_ignored(const char *key)
{
	return str_eq(key, CONTEXT_PROVISIONER_IDENTITY) ||
	       str_has_prefix(key, PARAM_SIDECAR_PREFIX);
}

static bool caps_hold(const struct dpu_volume *v, const struct validate_request *r, struct str *why)
{
	char have[64];

	for (size_t i = 0; i < r->n_caps; i++) {
		struct err err = ERR_INIT;

		if (volume_cap_check(&r->caps[i], provenance_emulation(v), "VolumeCapabilities",
		                     &err) ||
		    provenance_check_type(v, r->caps[i].type, &err)) {
			str_add(why, err.msg);
			return false;
		}
		if (!provenance_allows(v, &r->caps[i])) {
			str_addf(why,
			         "accessModes mismatch: the volume has %s, which does not allow %s",
			         dpu_access_modes_text(v->access_modes, have),
			         access_mode_name(r->caps[i].mode));
			return false;
		}
	}
	return true;
}

/*
 * Returns true if every given pair is in the volume's context. The driver's own keys always match
 * an unmarked volume.
 */
static bool context_holds(const struct dpu_volume *v, const struct kvs *given, struct arena *arena,
                          struct str *why)
{
	struct kvs real = provenance_context(v, given, arena);

	for (size_t i = 0; i < given->n; i++) {
		const struct kv *kv = &given->v[i];

		if (is_ignored(kv->key) || str_eq(kvs_get(&real, kv->key), kv->value))
			continue;
		str_addf(why, "volumeCtx mismatch: %s is %s", kv->key,
		         kvs_get(&real, kv->key) ? "another" : "not in the volume's context");
		return false;
	}
	return true;
}

/*
 * Returns the volume's value for a StorageClass key; "" if it has no value, NULL if the value is
 * not known.
 */
static const char *known_parameter(const struct dpu_volume *v, const char *key)
{
	bool marked = provenance_get(v, ANNOTATION_NAME);
	const char *value;

	if (str_eq(key, PARAM_POLICY))
		return v->policy;
	if (volume_param_is_prefixed(key))
		value = provenance_get(v, key);
	else
		value = json_text(json_member(v->parameters, key));
	return value ? value : marked || !volume_param_is_ours(key) ? "" : NULL;
}

static bool function_holds(const struct dpu_volume *v, const struct validate_request *r,
                           struct str *why)
{
	const char *type = provenance_get(v, ANNOTATION_FUNCTION_TYPE);
	const char *hotplug = provenance_get(v, ANNOTATION_HOTPLUG);
	struct err err = ERR_INIT;
	struct volume_params p;

	if (volume_params_parse(&r->parameters, provenance_emulation(v), NULL, &p, &err)) {
		str_addf(why, "parameters mismatch: %s", err.msg);
		return false;
	}
	if (p.emulation != provenance_emulation(v)) {
		str_addf(why, "volumeMode mismatch: the volume is emulated by %s",
		         emulation_name(provenance_emulation(v)));
		return false;
	}
	if ((!type || str_eq(type, p.pf ? "pf" : "vf")) &&
	    (!hotplug || str_eq(hotplug, p.hotplug ? "true" : "false")))
		return true;
	str_addf(why, "parameters mismatch: the volume is for functionType %s, hotplugFunction %s",
	         type ? type : "any", hotplug ? hotplug : "any");
	return false;
}

static bool parameters_hold(const struct dpu_volume *v, const struct validate_request *r,
                            struct str *why)
{
	if (!r->parameters.n)
		return true;
	for (size_t i = 0; i < r->parameters.n; i++) {
		const struct kv *kv = &r->parameters.v[i];
		const char *known;

		if (is_ignored(kv->key) || str_eq(kv->key, PARAM_FUNCTION_TYPE) ||
		    str_eq(kv->key, PARAM_HOTPLUG_FUNCTION))
			continue;
		known = known_parameter(v, kv->key);
		if (!known || str_eq(known, kv->value))
			continue;
		str_addf(why, "parameters mismatch: %s is %s", kv->key,
		         *known ? "another" : "not set");
		return false;
	}
	return function_holds(v, r, why);
}

static bool all_holds(const struct dpu_volume *v, const struct validate_request *r,
                      struct arena *arena, struct str *why)
{
	if (v->deleting)
		str_add(why, "the volume is being deleted");
	else if (r->n_mutable_parameters)
		str_add(why, "mutable parameters are not supported");
	if (why->len)
		return false;
	return caps_hold(v, r, why) && context_holds(v, &r->volume_context, arena, why) &&
	       parameters_hold(v, r, why);
}

int volume_validate(const struct controller *c, const struct validate_request *r, struct deadline d,
                    struct arena *arena, const char **ret_why, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct json *object AUTO(json_free) = NULL;
	struct dpu_volume v;

	if (volume_read(c, r->volume, controller_deadline(c, d), &object, &v, err))
		return -1;
	if (all_holds(&v, r, arena, &why))
		return 0;
	*ret_why = arena_strdup(arena, why.ptr);
	return VALIDATE_DIFFERS;
}
