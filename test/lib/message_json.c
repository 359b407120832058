/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two directions of message_json.h, driven by protobuf-c's descriptors. Reading
 * writes straight into the message's memory at the offsets that the descriptor
 * gives; nothing here knows a CSI message by name. Bytes fields and floating point
 * do not occur in CSI and are refused.
 */
#include "test/lib/message_json.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

static bool is_map_entry(const ProtobufCMessageDescriptor *d)
{
	return str_has_suffix(d->short_name, "Entry") && d->n_fields == 2 &&
	       str_eq(d->fields[0].name, "key") && str_eq(d->fields[1].name, "value");
}

/* google.protobuf.BoolValue and similar types: a message around one plain value. */
static bool is_wrapper(const ProtobufCMessageDescriptor *d)
{
	return str_eq(d->package_name, "google.protobuf") && d->n_fields == 1;
}

static bool is_map(const ProtobufCFieldDescriptor *f)
{
	return f->label == PROTOBUF_C_LABEL_REPEATED && f->type == PROTOBUF_C_TYPE_MESSAGE &&
	       is_map_entry(f->descriptor);
}

/* The six kinds of values that cover protobuf's seventeen types. */
enum kind { KIND_NONE, KIND_STRING, KIND_MESSAGE, KIND_ENUM, KIND_BOOL, KIND_NARROW, KIND_WIDE };

static const enum kind kinds[] = {
	[PROTOBUF_C_TYPE_STRING] = KIND_STRING,   [PROTOBUF_C_TYPE_MESSAGE] = KIND_MESSAGE,
	[PROTOBUF_C_TYPE_ENUM] = KIND_ENUM,       [PROTOBUF_C_TYPE_BOOL] = KIND_BOOL,
	[PROTOBUF_C_TYPE_INT32] = KIND_NARROW,    [PROTOBUF_C_TYPE_UINT32] = KIND_NARROW,
	[PROTOBUF_C_TYPE_SINT32] = KIND_NARROW,   [PROTOBUF_C_TYPE_FIXED32] = KIND_NARROW,
	[PROTOBUF_C_TYPE_SFIXED32] = KIND_NARROW, [PROTOBUF_C_TYPE_INT64] = KIND_WIDE,
	[PROTOBUF_C_TYPE_UINT64] = KIND_WIDE,     [PROTOBUF_C_TYPE_SINT64] = KIND_WIDE,
	[PROTOBUF_C_TYPE_FIXED64] = KIND_WIDE,    [PROTOBUF_C_TYPE_SFIXED64] = KIND_WIDE,
};

static const size_t sizes[] = {
	[KIND_NONE] = 0,
	[KIND_STRING] = sizeof(char *),
	[KIND_MESSAGE] = sizeof(void *),
	[KIND_ENUM] = sizeof(int32_t),
	[KIND_BOOL] = sizeof(protobuf_c_boolean),
	[KIND_NARROW] = sizeof(int32_t),
	[KIND_WIDE] = sizeof(int64_t),
};

static enum kind kind_of(const ProtobufCFieldDescriptor *f)
{
	return f->type < ARRAY_LEN(kinds) ? kinds[f->type] : KIND_NONE;
}

/* ---- JSON -> message ---- */

static int integer_value(const char *what, const struct json *j, int64_t *ret, struct err *err)
{
	const char *text = json_text(j);
	if (text)
		return parse_i64(what, text, ret, err);
	if (json_get_i64(j, "", ret, err))
		return err_wrap(err, "%s", what);
	return 0;
}

static int narrow_value(const char *what, const struct json *j, int32_t *ret, struct err *err)
{
	int64_t number = 0;
	if (integer_value(what, j, &number, err))
		return -1;
	if (number < INT32_MIN || number > UINT32_MAX)
		return err_set(err, ERR_INVALID, "%s: out of range", what);
	*ret = (int32_t)number;
	return 0;
}

static int enum_value(const ProtobufCFieldDescriptor *f, const struct json *j, int32_t *ret,
                      struct err *err)
{
	const ProtobufCEnumDescriptor *d = f->descriptor;
	const char *text = json_text(j);
	int64_t number = 0;
	if (text) {
		const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value_by_name(d, text);
		if (!v)
			return err_set(err, ERR_INVALID, "%s: \"%s\" is no value of %s", f->name,
			               text, d->name);
		number = v->value;
	} else if (integer_value(f->name, j, &number, err)) {
		return -1;
	}
	*ret = (int32_t)number;
	return 0;
}

static int bool_value(const char *what, const struct json *j, protobuf_c_boolean *ret,
                      struct err *err)
{
	const char *text = json_text(j);
	bool b = false;
	if (text ? parse_bool(what, text, &b, err) : json_get_bool(j, "", &b, err))
		return -1;
	*ret = b;
	return 0;
}

static int string_value(const char *what, const struct json *j, struct arena *arena, char **ret,
                        struct err *err)
{
	const char *text = json_text(j);
	if (!text)
		return err_set(err, ERR_INVALID, "%s: a string is wanted", what);
	*ret = arena_strdup(arena, text);
	return 0;
}

static int message_value(const ProtobufCMessageDescriptor *d, const struct json *j,
                         struct arena *arena, ProtobufCMessage **ret, struct err *err);

/* One value of the field's type into *slot. */
static int plain_value(const ProtobufCFieldDescriptor *f, const struct json *j, struct arena *arena,
                       void *slot, struct err *err)
{
	switch (kind_of(f)) {
	case KIND_STRING:
		return string_value(f->name, j, arena, slot, err);
	case KIND_MESSAGE:
		return message_value(f->descriptor, j, arena, slot, err);
	case KIND_ENUM:
		return enum_value(f, j, slot, err);
	case KIND_BOOL:
		return bool_value(f->name, j, slot, err);
	case KIND_WIDE:
		return integer_value(f->name, j, slot, err);
	case KIND_NARROW:
		return narrow_value(f->name, j, slot, err);
	case KIND_NONE:
		break;
	}
	return err_set(err, ERR_UNIMPLEMENTED, "%s: bytes and fractions are not read", f->name);
}

static int map_entry(const ProtobufCMessageDescriptor *d, const struct json *item,
                     struct arena *arena, void **ret, struct err *err)
{
	char *entry = arena_alloc(arena, d->sizeof_message);
	char *key = arena_strdup(arena, json_name(item));

	protobuf_c_message_init(d, entry);
	memcpy(entry + d->fields[0].offset, &key, sizeof(key));
	if (plain_value(&d->fields[1], item, arena, entry + d->fields[1].offset, err))
		return err_wrap(err, "%s", key);
	*ret = entry;
	return 0;
}

static int repeated_value(const ProtobufCFieldDescriptor *f, const struct json *j,
                          struct arena *arena, char *message, struct err *err)
{
	bool map = is_map(f);
	bool one = !map && !json_is_array(j);
	size_t n = one ? 1 : json_count(j), size = sizes[kind_of(f)], i = 0;
	char *values = arena_alloc(arena, n ? n * size : 1);
	if (one && plain_value(f, j, arena, values, err))
		return -1;
	json_foreach (item, one ? NULL : j) {
		char *slot = values + i++ * size;
		if (map ? map_entry(f->descriptor, item, arena, (void **)(void *)slot, err)
		        : plain_value(f, item, arena, slot, err))
			return -1;
	}
	memcpy(message + f->offset, &values, sizeof(values));
	memcpy(message + f->quantifier_offset, &n, sizeof(n));
	return 0;
}

static int field_value(const ProtobufCFieldDescriptor *f, const struct json *j, struct arena *arena,
                       char *message, struct err *err)
{
	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return repeated_value(f, j, arena, message, err);
	if (plain_value(f, j, arena, message + f->offset, err))
		return -1;
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		memcpy(message + f->quantifier_offset, &f->id, sizeof(f->id));
	return 0;
}

static int unknown_member(const ProtobufCMessageDescriptor *d, const char *name, struct err *err)
{
	struct str known AUTO(str_clear) = STR_INIT(600);
	for (unsigned i = 0; i < d->n_fields; i++)
		str_addf(&known, "%s%s", i ? ", " : "", d->fields[i].name);
	return err_set(err, ERR_INVALID, "%s has no field \"%s\"; it has: %s", d->name, name,
	               known.len ? known.ptr : "none");
}

static int message_value(const ProtobufCMessageDescriptor *d, const struct json *j,
                         struct arena *arena, ProtobufCMessage **ret, struct err *err)
{
	char *message = arena_alloc(arena, d->sizeof_message);
	protobuf_c_message_init(d, message);
	if (is_wrapper(d)) {
		if (plain_value(&d->fields[0], j, arena, message + d->fields[0].offset, err))
			return -1;
	} else if (!json_is_object(j)) {
		return err_set(err, ERR_INVALID, "%s: an object is wanted", d->short_name);
	} else {
		json_foreach (item, j) {
			const char *name = json_name(item);
			const ProtobufCFieldDescriptor *f =
				protobuf_c_message_descriptor_get_field_by_name(d, name);
			if (!f)
				return unknown_member(d, name, err);
			if (field_value(f, item, arena, message, err))
				return err_wrap(err, "%s", d->short_name);
		}
	}
	*ret = (ProtobufCMessage *)(void *)message;
	return 0;
}

int message_from_json(const ProtobufCMessageDescriptor *d, const struct json *j,
                      struct arena *arena, ProtobufCMessage **ret, struct err *err)
{
	return message_value(d, j, arena, ret, err);
}

/* ---- message -> JSON ---- */

static struct json *enum_to_json(const ProtobufCEnumDescriptor *d, int32_t number)
{
	const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(d, number);
	return v ? json_string(v->name) : json_int(number);
}

static struct json *value_to_json(const ProtobufCFieldDescriptor *f, const void *slot)
{
	switch (kind_of(f)) {
	case KIND_STRING:
		return json_string(*(char *const *)slot);
	case KIND_MESSAGE:
		return message_to_json(*(ProtobufCMessage *const *)slot);
	case KIND_BOOL:
		return json_boolean(*(const protobuf_c_boolean *)slot);
	case KIND_ENUM:
		return enum_to_json(f->descriptor, *(const int32_t *)slot);
	case KIND_WIDE:
		return json_int(*(const int64_t *)slot);
	case KIND_NARROW:
		return json_int(*(const int32_t *)slot);
	case KIND_NONE:
		break;
	}
	return json_string("(not shown)");
}

static void map_entry_to_json(const ProtobufCMessageDescriptor *d, const char *slot,
                              struct json *map)
{
	const ProtobufCFieldDescriptor *kv = d->fields;
	const char *entry = *(char *const *)(const void *)slot;

	json_set(map, *(char *const *)(const void *)(entry + kv[0].offset),
	         value_to_json(&kv[1], entry + kv[1].offset));
}

static struct json *repeated_to_json(const ProtobufCFieldDescriptor *f, const char *message)
{
	bool map = is_map(f);
	struct json *list = map ? json_object() : json_array();
	const char *values = *(char *const *)(const void *)(message + f->offset);
	size_t n = *(const size_t *)(const void *)(message + f->quantifier_offset);

	for (size_t i = 0; i < n; i++) {
		const char *slot = values + i * sizes[kind_of(f)];

		if (map)
			map_entry_to_json(f->descriptor, slot, list);
		else
			json_append(list, value_to_json(f, slot));
	}
	return list;
}

/*
 * Whether a field is set in the sense of proto3: the chosen member of a oneof, a message that is
 * present, or any other value that is not the type's zero.
 */
static bool field_is_set(const ProtobufCFieldDescriptor *f, const char *message)
{
	static const char zeros[16];
	const void *slot = message + f->offset;

	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)(const void *)(message + f->quantifier_offset) > 0;
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return *(const uint32_t *)(const void *)(message + f->quantifier_offset) == f->id;
	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(void *const *)slot != NULL;
	if (f->type == PROTOBUF_C_TYPE_STRING)
		return !str_empty(*(char *const *)slot);
	return memcmp(slot, zeros, sizes[kind_of(f)]) != 0;
}

struct json *message_to_json(const ProtobufCMessage *m)
{
	const ProtobufCMessageDescriptor *d = m->descriptor;
	const char *message = (const void *)m;
	struct json *j;

	if (is_wrapper(d))
		return value_to_json(&d->fields[0], message + d->fields[0].offset);
	j = json_object();
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		if (!field_is_set(f, message))
			continue;
		json_set(j, f->name,
		         f->label == PROTOBUF_C_LABEL_REPEATED
		                 ? repeated_to_json(f, message)
		                 : value_to_json(f, message + f->offset));
	}
	return j;
}
