/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /version, /api, /apis and the resource lists, generated from the table in resource.c. No state.
 */
#include "test/sim/api/api_discovery.h"

#include <string.h>

#include "common/mem.h"
#include "test/sim/kinds/served.h"

static const char *const all_verbs[] = { "create", "delete", "get",  "list",
	                                 "patch",  "update", "watch" };
static const char *const status_verbs[] = { "get", "patch", "update" };

static struct json *header(const char *kind)
{
	struct json *o = json_object();

	json_set_str(o, "kind", kind);
	json_set_str(o, "apiVersion", "v1");
	return o;
}

static struct json *version_of(const struct api_resource *r, const char *version)
{
	char *group_version AUTO(free) = xasprintf("%s/%s", r->group, version);
	struct json *v = json_object();

	json_set_str(v, "groupVersion", group_version);
	json_set_str(v, "version", version);
	return v;
}

static struct json *group_of(const struct api_resource *r)
{
	struct strs versions AUTO(strs_clear) = STRS_INIT;
	struct json *group = json_object();

	served_versions(r, &versions);
	json_set_str(group, "name", r->group);
	json_set(group, "versions", json_array());
	for (size_t i = 0; i < versions.n; i++)
		json_append(json_at_mut(group, "versions"), version_of(r, versions.v[i]));
	json_set(group, "preferredVersion", version_of(r, versions.v[0]));
	return group;
}

/* Whether no earlier row has the same group. */
static bool first_of_group(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (str_eq(resources[k].group, resources[i].group))
			return false;
	return true;
}

static void reply_groups(struct reply *ret)
{
	struct json *list AUTO(json_free) = header("APIGroupList");

	json_set(list, "groups", json_array());
	for (size_t i = 0; i < RES_COUNT; i++)
		if (*resources[i].group && first_of_group(i))
			json_append(json_at_mut(list, "groups"), group_of(&resources[i]));
	reply_json(ret, 200, list);
}

static void reply_core_versions(struct reply *ret)
{
	struct json *o AUTO(json_free) = json_object();

	json_set_str(o, "kind", "APIVersions");
	json_set(o, "versions", json_array());
	json_append(json_at_mut(o, "versions"), json_string("v1"));
	reply_json(ret, 200, o);
}

static struct json *entry(const struct api_resource *r, const char *sub, const char *const *verbs,
                          size_t n_verbs)
{
	struct json *e = json_object();
	char *name AUTO(free) = xasprintf("%s%s", r->plural, sub);

	json_set_str(e, "name", name);
	json_set_str(e, "singularName", *sub ? "" : r->singular);
	json_set_bool(e, "namespaced", r->namespaced);
	json_set_str(e, "kind", r->kind);
	json_set(e, "verbs", json_array());
	for (size_t i = 0; i < n_verbs; i++)
		json_append(json_at_mut(e, "verbs"), json_string(verbs[i]));
	return e;
}

/* "v1", or "storage.dpu.nvidia.com/v1alpha1". */
static bool is_in(const struct api_resource *r, const char *group_version)
{
	size_t n = strlen(r->group);

	if (!n)
		return str_eq(group_version, r->version);
	return str_has_prefix(group_version, r->group) && group_version[n] == '/' &&
	       served_has(r, group_version + n + 1);
}

static void reply_resources(const char *group_version, struct reply *ret)
{
	struct json *list AUTO(json_free) = header("APIResourceList");
	struct json *entries = json_array();

	json_set_str(list, "groupVersion", group_version);
	for (size_t i = 0; i < RES_COUNT; i++) {
		const struct api_resource *r = &resources[i];
		if (!is_in(r, group_version))
			continue;
		json_append(entries, entry(r, "", all_verbs, ARRAY_LEN(all_verbs)));
		if (r->status)
			json_append(entries,
			            entry(r, "/status", status_verbs, ARRAY_LEN(status_verbs)));
	}
	json_set(list, "resources", entries);
	reply_json(ret, 200, list);
}

static void reply_version(struct reply *ret)
{
	struct json *o AUTO(json_free) = json_object();

	json_set_str(o, "major", "1");
	json_set_str(o, "minor", "36");
	json_set_str(o, "gitVersion", "v1.36.0-snap-sim");
	json_set_str(o, "platform", "linux/amd64");
	reply_json(ret, 200, o);
}

bool api_discovery(const char *path, struct reply *ret)
{
	if (str_eq(path, "/version"))
		reply_version(ret);
	else if (str_eq(path, "/api"))
		reply_core_versions(ret);
	else if (str_eq(path, "/apis"))
		reply_groups(ret);
	else if (str_eq(path, "/api/v1"))
		reply_resources("v1", ret);
	else
		for (size_t i = 0; i < RES_COUNT; i++) {
			const struct api_resource *r = &resources[i];
			char *group AUTO(free) = xasprintf("/apis/%s", r->group);

			if (!*r->group)
				continue;
			if (str_has_prefix(path, "/apis/") && is_in(r, path + strlen("/apis/"))) {
				reply_resources(path + strlen("/apis/"), ret);
				return true;
			}
			if (str_eq(path, group)) {
				struct json *o AUTO(json_free) = group_of(r);

				json_set_str(o, "kind", "APIGroup");
				json_set_str(o, "apiVersion", "v1");
				reply_json(ret, 200, o);
				return true;
			}
		}
	return ret->code != 0;
}
