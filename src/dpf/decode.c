/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes JSON objects into structs, as described by the field tables. Unknown members are ignored;
 * a wrong type is an error that names the path, because the driver must not act on a misread
 * object. The remaining fields are still read.
 */
#include "dpf/decode.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "dpf/quantity.h"
#include "common/err.h"

static int decode_map(const struct json *object, const char *path, const struct json **ret,
                      struct err *err)
{
	const struct json *map = json_at(object, path);

	if (!map)
		return JSON_ABSENT;
	if (!json_is_object(map))
		return err_set(err, ERR_INVALID, "%s: is not an object", path);
	json_foreach (member, map)
		if (!json_text(member))
			return err_set(err, ERR_INVALID, "%s: member %s is not a string", path,
			               json_name(member));
	*ret = map;
	return 0;
}

static int decode_field(const struct json *object, const struct json_field *f, void *at,
                        struct err *err)
{
	switch (f->type) {
	case FIELD_TEXT:
		return json_get_str(object, f->path, at, err);
	case FIELD_FLAG:
		return json_get_bool(object, f->path, at, err);
	case FIELD_NUMBER:
		return json_get_i64(object, f->path, at, err);
	case FIELD_QUANTITY:
		return quantity_get(object, f->path, at, err);
	case FIELD_MAP:
		return decode_map(object, f->path, at, err);
	case FIELD_PRESENT:
		*(bool *)at = json_at(object, f->path) != NULL;
		return 0;
	case FIELD_LIST:
		return 0;
	}
	return 0;
}

int decode_fields(const struct json *object, const struct json_field *fields, size_t n, void *into,
                  struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		struct err other = ERR_INIT;

		if (decode_field(object, &fields[i], (char *)into + fields[i].offset,
		                 rc ? &other : err) < 0)
			rc = -1;
		err_clear(&other);
	}
	return rc ? err_recode(err, ERR_UNAVAILABLE) : 0;
}

/* ---- the same fields in a schema ---- */

/*
 * Returns the schema of a field, or NULL. *ret_any is set if the schema allows any value from this
 * point on.
 */
static const struct json *schema_of_field(const struct json *schema, const char *path,
                                          bool *ret_any)
{
	*ret_any = false;
	while (schema && *path) {
		size_t n = strcspn(path, ".");
		char *name AUTO(free) = xstrndup(path, n);
		const struct json *property = json_member(json_member(schema, "properties"), name);

		*ret_any = json_member(schema, "x-kubernetes-preserve-unknown-fields") != NULL;
		if (!property && *ret_any)
			return schema;
		schema = property ? property : json_member(schema, "additionalProperties");
		path += n + (path[n] == '.');
	}
	return schema;
}

static bool is_of_type(const struct json *schema, enum field_type type)
{
	static const char *const types[] = {
		[FIELD_TEXT] = "string", [FIELD_FLAG] = "boolean", [FIELD_NUMBER] = "integer",
		[FIELD_MAP] = "object",  [FIELD_LIST] = "array",
	};
	const char *is = json_str(schema, "type");

	if (type == FIELD_PRESENT)
		return true;
	if (type == FIELD_QUANTITY) /* an integer or a string, for which the schema has no type */
		return !is || str_eq(is, "string") || str_eq(is, "integer");
	return str_eq(is, types[type]);
}

bool schema_has_fields(const struct json *schema, const struct json_field *fields, size_t n,
                       struct str *lacks)
{
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		const struct json *field;
		bool any;

		if (str_has_prefix(fields[i].path, "metadata."))
			continue;
		field = schema_of_field(schema, fields[i].path, &any);
		if (field && (any || is_of_type(field, fields[i].type)))
			continue;
		str_addf(lacks, "%s%s %s", lacks->len ? ", " : "", fields[i].path,
		         field ? "has another type" : "is missing");
		all = false;
	}
	return all;
}
