/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validates objects against their schema. Field errors have the API server's form ("spec.x:
 * Required value"), because clients show them to people. No state.
 *
 * Not checked: status, which only DPF writes.
 */
#include "test/sim/kinds/validate.h"

#include <inttypes.h>
#include <regex.h>
#include <string.h>

#include "common/mem.h"
#include "test/sim/kinds/quantity.h"
#include "test/sim/kinds/schema.h"
#include "test/sim/kinds/validate_meta.h"

static const char *const type_names[] = {
	[T_STRING] = "string",     [T_BOOLEAN] = "boolean",  [T_STRING_MAP] = "object",
	[T_STRING_LIST] = "array", [T_RESOURCES] = "object",
};

static const struct schema_field *field_find(const struct schema *schema, const char *name)
{
	for (size_t i = 0; i < schema->n; i++)
		if (str_eq(schema->fields[i].name, name))
			return &schema->fields[i];
	return NULL;
}

static void keep_only(struct json *object, bool (*known)(const void *arg, const char *name),
                      const void *arg)
{
	struct strs unknown AUTO(strs_clear) = STRS_INIT;

	json_foreach (member, object) {
		if (!known(arg, json_name(member)))
			strs_add(&unknown, json_name(member));
	}
	for (size_t i = 0; i < unknown.n; i++)
		json_remove(object, unknown.v[i]);
}

static bool known_member(const void *arg, const char *name)
{
	static const char *const known[] = { "apiVersion", "kind", "metadata", "spec", "status" };

	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(known[i], name))
			return true;
	return false;
}

static bool known_field(const void *schema, const char *name)
{
	return field_find(schema, name);
}

static void set_default(struct json *spec, const struct schema_field *f)
{
	struct err err = ERR_INIT;
	struct json *value = NULL;

	if (!f->fallback || json_member(spec, f->name))
		return;
	if (json_parse(f->name, f->fallback, strlen(f->fallback), &value, &err))
		abort(); /* an error in the table */
	json_set(spec, f->name, value);
}

void validate_prune(const struct api_resource *res, struct json *object)
{
	struct json *spec = json_at_mut(object, "spec");

	if (!res->schema)
		return;
	keep_only(object, known_member, NULL);
	if (!json_is_object(spec))
		return;
	keep_only(spec, known_field, res->schema);
	for (size_t i = 0; i < res->schema->n; i++)
		set_default(spec, &res->schema->fields[i]);
}

static bool all_strings(const struct json *container)
{
	json_foreach (item, container) {
		if (!json_is_string(item))
			return false;
	}
	return true;
}

static bool has_type(const struct json *value, enum schema_type type)
{
	struct err err = ERR_INIT;
	bool flag;

	switch (type) {
	case T_STRING:
		return json_is_string(value);
	case T_BOOLEAN:
		return json_get_bool(value, "", &flag, &err) == 0;
	case T_STRING_MAP:
		return json_is_object(value);
	case T_STRING_LIST:
		return json_is_array(value) && all_strings(value);
	case T_RESOURCES:
		return json_is_object(value);
	}
	return false;
}

static const char *type_of(const struct json *value)
{
	struct err err = ERR_INIT;
	bool flag;

	if (json_is_string(value))
		return "string";
	if (json_is_object(value))
		return "object";
	if (json_is_array(value))
		return "array";
	return json_get_bool(value, "", &flag, &err) == 0 ? "boolean" : "integer";
}

static bool is_allowed(const struct schema_field *f, const char *value)
{
	for (const char *const *a = f->allowed; *a; a++)
		if (str_eq(*a, value))
			return true;
	return false;
}

static void check_enum(const struct schema_field *f, const char *path, const char *value,
                       struct invalid *ret)
{
	struct str list AUTO(str_clear) = STR_INIT(1024);

	if (is_allowed(f, value))
		return;
	for (const char *const *a = f->allowed; *a; a++)
		str_addf(&list, "%s\"%s\"", a == f->allowed ? "" : ", ", *a);
	invalid_add(ret, "FieldValueNotSupported", path,
	            "Unsupported value: \"%s\": supported values: %s", value, list.ptr);
}

static void check_string(const struct schema_field *f, const char *path, const char *value,
                         struct invalid *ret)
{
	if (strlen(value) < f->min)
		invalid_add(ret, "FieldValueInvalid", path,
		            "Invalid value: \"%s\": %s in body should be at least %u chars long",
		            value, path, f->min);
	if (f->allowed)
		check_enum(f, path, value, ret);
}

static void check_list(const char *path, const struct schema_field *f, const struct json *list,
                       struct invalid *ret)
{
	size_t n = json_count(list);

	if (n < f->min)
		invalid_add(ret, "FieldValueInvalid", path,
		            "Invalid value: %zu: %s in body should have at least %u items", n, path,
		            f->min);
	if (f->max && n > f->max)
		invalid_add(ret, "FieldValueTooMany", path,
		            "Too many: %zu: must have at most %u items", n, f->max);
}

static void add_type_error(const char *path, const char *wanted, const struct json *value,
                           struct invalid *ret)
{
	invalid_add(ret, "FieldValueTypeInvalid", path,
	            "Invalid value: \"%s\": %s in body must be of type %s: \"%s\"", type_of(value),
	            path, wanted, type_of(value));
}

static void check_strings(const char *path, const struct json *map, struct invalid *ret)
{
	json_foreach (item, map) {
		char *where AUTO(free) = xasprintf("%s.%s", path, json_name(item));

		if (!json_is_string(item))
			add_type_error(where, "string", item, ret);
	}
}

/* As x-kubernetes-int-or-string. */
static bool is_int_or_string(const struct json *value)
{
	struct err err = ERR_INIT;
	int64_t number;

	return json_is_string(value) || json_get_i64(value, "", &number, &err) == 0;
}

static bool has_pattern(const char *text, const char *pattern)
{
	regex_t expression;
	bool match;

	if (regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB))
		abort(); /* an error in the table */
	match = regexec(&expression, text, 0, NULL, 0) == 0;
	regfree(&expression);
	return match;
}

static void check_quantity(const char *path, const struct json *value, struct invalid *ret)
{
	if (!is_int_or_string(value))
		add_type_error(path, "integer,string", value, ret);
	else if (json_text(value) && !has_pattern(json_text(value), PATTERN_QUANTITY))
		invalid_add(ret, "FieldValueInvalid", path,
		            "Invalid value: \"%s\": %s in body should match '%s'", json_text(value),
		            path, PATTERN_QUANTITY);
}

static void check_resources(const char *path, const struct json *value, struct invalid *ret)
{
	static const char *const parts[] = { "requests", "limits" };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		json_foreach (item, json_member(value, parts[i])) {
			char *where AUTO(free) =
				xasprintf("%s.%s.%s", path, parts[i], json_name(item));

			check_quantity(where, item, ret);
		}
	}
}

/* Type, enum and lengths: the schema without its CEL rules. */
static void check_value(const struct schema_field *f, const char *path, const struct json *value,
                        struct invalid *ret)
{
	if (!has_type(value, f->type))
		add_type_error(path, type_names[f->type], value, ret);
	else if (f->type == T_STRING)
		check_string(f, path, json_text(value), ret);
	else if (f->type == T_STRING_LIST)
		check_list(path, f, value, ret);
	else if (f->type == T_STRING_MAP)
		check_strings(path, value, ret);
	else if (f->type == T_RESOURCES)
		check_resources(path, value, ret);
}

/* ---- rules (CEL) ---- */

/* The server shows no value with a broken rule of an object or a list. */
static void add_broken(const char *path, const char *message, struct invalid *ret)
{
	invalid_add(ret, "FieldValueInvalid", path, "Invalid value: %s", message);
}

static void rule_of_modes(const struct schema_field *f, const char *path, const struct json *list,
                          struct invalid *ret)
{
	json_foreach (item, list) {
		if (!is_allowed(f, json_text(item))) {
			add_broken(path, RULE_MODES, ret);
			return;
		}
	}
}

/* Of requests.storage; 0 for an invalid value. */
static uint64_t storage_of(const struct json *value)
{
	const struct json *asked = json_at(value, "requests.storage");
	struct err ignored = ERR_INIT;
	uint64_t bytes = 0;
	int64_t number = 0;

	if (json_text(asked))
		IGNORE_RESULT(quantity_parse(json_text(asked), &bytes, &ignored));
	else if (json_get_i64(asked, "", &number, &ignored) == 0)
		bytes = (uint64_t)number;
	return bytes;
}

static void check_rules(const struct schema_field *f, const char *path, const struct json *value,
                        const struct json *old_spec, struct invalid *ret)
{
	const struct json *old = json_member(old_spec, f->name);

	if (f->type == T_STRING_LIST && f->allowed)
		rule_of_modes(f, path, value, ret);
	else if (f->type == T_RESOURCES && !json_at(value, "requests.storage"))
		add_broken(path, RULE_STORAGE, ret);
	if (f->immutable && old && !json_equal(old, value))
		add_broken("spec", f->immutable, ret);
	if (f->grows && old && storage_of(value) < storage_of(old))
		add_broken(path, f->grows, ret);
}

/* ---- the whole object ---- */

/* Whether there are errors after which the server skips the CEL rules. */
static bool is_blocking(const struct invalid *found)
{
	static const char *const reasons[] = { "FieldValueRequired", "FieldValueTypeInvalid",
		                               "FieldValueNotSupported", "FieldValueTooMany",
		                               "FieldValueTooLong" };

	json_foreach (cause, found->causes)
		for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
			if (str_eq(json_str(cause, "reason"), reasons[i]))
				return true;
	return false;
}

static bool has_rules(const struct schema *schema)
{
	for (size_t i = 0; i < schema->n; i++)
		if (schema->fields[i].immutable)
			return true;
	return schema->rule;
}

static void check_spec(const struct schema *schema, const struct json *spec, struct invalid *ret)
{
	for (size_t i = 0; i < schema->n; i++) {
		const struct schema_field *f = &schema->fields[i];
		const struct json *value = json_member(spec, f->name);
		char *path AUTO(free) = xasprintf("spec.%s", f->name);

		if (value)
			check_value(f, path, value, ret);
		else if (f->required)
			invalid_add(ret, "FieldValueRequired", path, "Required value");
	}
}

static void check_spec_rules(const struct schema *schema, const struct json *spec,
                             const struct json *old_spec, struct invalid *ret)
{
	if (schema->rule)
		schema->rule(spec, ret);
	for (size_t i = 0; i < schema->n; i++) {
		const struct json *value = json_member(spec, schema->fields[i].name);
		char *path AUTO(free) = xasprintf("spec.%s", schema->fields[i].name);

		if (value)
			check_rules(&schema->fields[i], path, value, old_spec, ret);
	}
}

void validate_object(const struct api_resource *res, const struct json *object,
                     const struct json *old, struct invalid *ret)
{
	const struct json *spec = json_at(object, "spec");

	validate_metadata(res, object, old, ret);
	if (!res->schema)
		return;
	if (!str_eq(json_str(object, "kind"), res->kind))
		invalid_add(ret, "FieldValueInvalid", "kind", "Invalid value: \"%s\": must be %s",
		            json_str(object, "kind"), res->kind);
	if (!json_is_object(spec))
		invalid_add(ret, "FieldValueRequired", "spec", "Required value");
	else
		check_spec(res->schema, spec, ret);
	if (!has_rules(res->schema))
		return;
	if (is_blocking(ret))
		invalid_add(
			ret, "FieldValueInvalid", "<nil>",
			"Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation");
	else
		check_spec_rules(res->schema, spec, json_at(old, "spec"), ret);
}
