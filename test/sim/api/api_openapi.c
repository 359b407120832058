/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas as the API server publishes them to every client: types and the rules of the CRD, which
 * follow --growing-volumes. Omitted: descriptions, paths, fields of status. No state.
 */
#include "test/sim/api/api_openapi.h"

#include <string.h>

#include "common/mem.h"
#include "test/sim/kinds/schema.h"
#include "test/sim/kinds/served.h"

#define PREFIX "/openapi/v3/apis/"

static bool is_of(const struct api_resource *r, const char *path)
{
	char *group AUTO(free) = xasprintf("%s%s/", PREFIX, r->group);

	return r->schema && str_has_prefix(path, group) && served_has(r, path + strlen(group));
}

bool api_openapi_is(const char *path)
{
	for (size_t i = 0; i < RES_COUNT; i++)
		if (is_of(&resources[i], path))
			return true;
	return false;
}

static void add_rule(struct json *field, const char *rule, const char *message)
{
	struct json *item = json_object();

	if (!json_member(field, "x-kubernetes-validations"))
		json_set(field, "x-kubernetes-validations", json_array());
	json_set_str(item, "rule", rule);
	json_set_str(item, "message", message);
	json_append(json_at_mut(field, "x-kubernetes-validations"), item);
}

static void describe_resources(struct json *field)
{
	static const char *const parts[] = { "requests", "limits" };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		struct json *part = json_sub(json_sub(field, "properties"), parts[i]);

		json_set_str(part, "type", "object");
		json_set_bool(json_sub(part, "additionalProperties"), "x-kubernetes-int-or-string",
		              true);
		json_set_str(json_sub(part, "additionalProperties"), "pattern", PATTERN_QUANTITY);
	}
	add_rule(field, "has(self.requests) && has(self.requests.storage)", RULE_STORAGE);
}

static void describe_field(const struct schema_field *f, struct json *ret)
{
	static const char *const types[] = {
		[T_STRING] = "string",     [T_BOOLEAN] = "boolean",  [T_STRING_MAP] = "object",
		[T_STRING_LIST] = "array", [T_RESOURCES] = "object",
	};

	json_set_str(ret, "type", types[f->type]);
	if (f->type == T_STRING_LIST)
		json_set_str(json_sub(ret, "items"), "type", "string");
	if (f->type == T_STRING_MAP)
		json_set_str(json_sub(ret, "additionalProperties"), "type", "string");
	if (f->type == T_RESOURCES)
		describe_resources(ret);
	if (f->grows)
		add_rule(ret, RULE_GROWS, f->grows);
}

static struct json *schema_of(const struct api_resource *r, const char *version)
{
	struct json *schema = json_object(), *kinds = json_array(), *gvk = json_object();
	struct json *spec = json_sub(json_sub(schema, "properties"), "spec");
	char *lacks AUTO(free) = served_lacks(version);

	json_set_str(schema, "type", "object");
	json_set_str(spec, "type", "object");
	for (size_t i = 0; i < r->schema->n; i++) {
		const struct schema_field *f = &r->schema->fields[i];
		char *rule AUTO(free) = xasprintf("self.%s == oldSelf.%s", f->name, f->name);

		if (r == RES(VOLUMES) && str_eq(f->name, lacks))
			continue;
		describe_field(f, json_sub(json_sub(spec, "properties"), f->name));
		if (f->immutable)
			add_rule(spec, rule, f->immutable);
	}
	json_set_bool(json_sub(json_sub(schema, "properties"), "status"),
	              "x-kubernetes-preserve-unknown-fields", true);
	json_set_str(gvk, "group", r->group);
	json_set_str(gvk, "version", version);
	json_set_str(gvk, "kind", r->kind);
	json_append(kinds, gvk);
	json_set(schema, "x-kubernetes-group-version-kind", kinds);
	return schema;
}

void api_openapi(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct json *document AUTO(json_free) = json_object();
	struct json *schemas = json_sub(json_sub(document, "components"), "schemas");
	const char *version = strrchr(call->path, '/') + 1;

	(void)t;
	json_set_str(document, "openapi", "3.0.0");
	json_sub(document, "paths");
	for (size_t i = 0; i < RES_COUNT; i++) {
		char *name AUTO(free) = NULL;

		if (!is_of(&resources[i], call->path))
			continue;
		name = xasprintf("com.nvidia.dpu.storage.%s.%s", version, resources[i].kind);
		json_set(schemas, name, schema_of(&resources[i], version));
	}
	reply_json(ret, 200, document);
}
