/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop behind the field tables. Unknown members are ignored, a wrong type is an error that
 * names the path: an object that we misread must not be acted upon. The other fields are read.
 */
#include "dpf/decode.h"

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
