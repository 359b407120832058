/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans protobuf bytes, guided by protobuf-c's descriptors. It checks properties that the unpacker
 * does not check (NUL, UTF-8, control characters, lengths) and refuses encodings that the unpacker
 * might read differently (overlong tags, lengths beyond the message, groups). Stateless; recursion
 * follows the descriptors. The scan does not replace unpacking: numbers and enums are skipped.
 */
#include "rpc/wire_check.h"

#include <limits.h>
#include <string.h>

#include "common/limits.h"
#include "common/str.h"

#define MAX_FIELDS 16 /* fields of one message type; a test compares it with all of CSI */
#define MAX_DEPTH 16  /* nesting of messages; the deepest CSI request has 5 */
#define MAX_TAG ((1U << 29) - 1)
#define KEY_SHOWN 64 /* a longer map key is not shown in errors */

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LEN = 2, WIRE_32 = 5 };

struct bytes {
	const uint8_t *p, *end;
};

/* A message that is being scanned; `up` is the message that contains it. */
struct open_message {
	const struct open_message *up;
	const ProtobufCMessageDescriptor *message;
	/* The field of `up` that holds this message; NULL: the request. */
	const ProtobufCFieldDescriptor *field;
	size_t index;     /* index in a repeated field */
	struct bytes key; /* key in a map */
	unsigned depth;
	bool *unknown; /* set if a field is not in the descriptors */
};

/* Running totals for one field of one message: messages, bytes of strings or map entries. */
struct tally {
	size_t count, bytes;
};

static const struct {
	const char *field;
	size_t max;
} string_limits[] = {
	{ "node_id", LIMIT_FIELD_NODE_ID },
	{ "volume_id", LIMIT_FIELD_NAME },
	{ "name", LIMIT_FIELD_NAME },
	{ "source_volume_id", LIMIT_FIELD_NAME },
	{ "source_volume_ids", LIMIT_FIELD_NAME },
	{ "starting_token", LIMIT_FIELD_TOKEN },
	{ "mount_flags", LIMIT_FIELD_MOUNT_FLAGS },
	{ "error", LIMIT_FIELD_REASON }, /* field of NotifyRegistrationStatus */
};

/*
 * Returns the permitted control characters. CSI permits tabs and line breaks in a name. An error is
 * human-readable text.
 */
static const char *controls_of(const char *name)
{
	return str_eq(name, "name") || str_eq(name, "error") ? "\t\n\r" : "";
}

bool wire_is_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *entry = field->descriptor;

	return field->type == PROTOBUF_C_TYPE_MESSAGE &&
	       field->label == PROTOBUF_C_LABEL_REPEATED &&
	       str_has_suffix(entry->short_name, "Entry") && entry->n_fields == 2 &&
	       str_eq(entry->fields[0].name, "key") && str_eq(entry->fields[1].name, "value") &&
	       entry->fields[0].type == PROTOBUF_C_TYPE_STRING &&
	       entry->fields[1].type == PROTOBUF_C_TYPE_STRING;
}

bool wire_is_secret(const ProtobufCFieldDescriptor *field)
{
	return str_eq(field->name, "secrets");
}

static size_t string_limit(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(string_limits); i++)
		if (str_eq(string_limits[i].field, name))
			return string_limits[i].max;
	/* PATH_MAX includes the NUL, which is not part of the message. */
	return str_has_suffix(name, "_path") ? LIMIT_FIELD_PATH - 1 : LIMIT_FIELD_STRING;
}

/* ---- error texts ---- */

static bool key_may_be_shown(const struct open_message *p)
{
	size_t n = (size_t)(p->key.end - p->key.p);

	return !wire_is_secret(p->field) && n > 0 && n <= KEY_SHOWN &&
	       utf8_valid((const char *)p->key.p, n);
}

static void add_path(struct str *path, const struct open_message *p)
{
	if (!p->field)
		return;
	add_path(path, p->up);
	str_addf(path, "%s%s", path->len ? "." : "", p->field->name);
	if (!wire_is_map(p->field)) {
		if (p->field->label == PROTOBUF_C_LABEL_REPEATED)
			str_addf(path, "[%zu]", p->index);
	} else if (key_may_be_shown(p)) {
		str_addf(path, "[\"%.*s\"]", (int)(p->key.end - p->key.p), (const char *)p->key.p);
	}
}

/*
 * Appends the path of `field` in the message `at`. In a map entry, appends the path of the entry
 * and whether the field is its key or its value.
 */
static void wire_add_field(struct str *path, const struct open_message *at,
                           const ProtobufCFieldDescriptor *field)
{
	add_path(path, at);
	if (!field)
		return;
	if (at->field && wire_is_map(at->field))
		str_addf(path, ": a %s", field->name);
	else
		str_addf(path, "%s%s", path->len ? "." : "", field->name);
}

static int refuse(const struct open_message *at, const ProtobufCFieldDescriptor *field,
                  struct err *err, const char *what)
{
	struct str path AUTO(str_clear) = STR_INIT(400);

	wire_add_field(&path, at, field);
	return err_set(err, ERR_INVALID, "%s %s", path.ptr, what);
}

static int refuse_malformed(const struct open_message *at, struct err *err, const char *what)
{
	struct str path AUTO(str_clear) = STR_INIT(400);

	while (at->up && at->field && wire_is_map(at->field))
		at = at->up;
	add_path(&path, at);
	while (at->up)
		at = at->up;
	return err_set(err, ERR_INVALID, "malformed %s%s%s: %s", at->message->short_name,
	               path.len ? ", in " : "", path.ptr, what);
}

/* ---- bytes ---- */

/* Reads a varint of at most max_bytes. Returns false if there is no valid one. */
static bool take_varint(struct bytes *in, unsigned max_bytes, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < max_bytes && in->p < in->end; i++) {
		uint8_t b = *in->p++;

		v |= (uint64_t)(b & 0x7f) << (7 * i);
		if (!(b & 0x80)) {
			*ret = v;
			return true;
		}
	}
	return false;
}

static bool take_tag(struct bytes *in, uint32_t *ret_field, enum wire_type *ret_type)
{
	uint64_t v;

	if (!take_varint(in, 5, &v) || v >> 3 == 0 || v >> 3 > MAX_TAG)
		return false;
	*ret_field = (uint32_t)(v >> 3);
	*ret_type = (enum wire_type)(v & 7);
	return true;
}

/*
 * Skips a value and returns its bytes in *ret (none for a varint). Returns false if the value is
 * truncated, or if its type is unknown.
 */
static bool take_value(struct bytes *in, enum wire_type type, struct bytes *ret)
{
	uint64_t n = 0, ignored;

	switch (type) {
	case WIRE_VARINT:
		*ret = (struct bytes) { in->p, in->p };
		return take_varint(in, 10, &ignored);
	case WIRE_64:
		n = 8;
		break;
	case WIRE_32:
		n = 4;
		break;
	case WIRE_LEN:
		if (!take_varint(in, 5, &n) || n > INT_MAX)
			return false;
		break;
	default: /* groups, and types that do not exist */
		return false;
	}
	if (n > (uint64_t)(in->end - in->p))
		return false;
	*ret = (struct bytes) { in->p, in->p + n };
	in->p += n;
	return true;
}

/* ---- checks ---- */

static int check_string(const struct open_message *at, const ProtobufCFieldDescriptor *field,
                        struct bytes s, struct tally *tally, struct err *err)
{
	size_t n = (size_t)(s.end - s.p), max = string_limit(field->name);
	struct str what AUTO(str_clear) = STR_INIT(100);

	if (n && memchr(s.p, 0, n))
		return refuse(at, field, err, "contains a NUL byte");
	if (!utf8_valid((const char *)s.p, n))
		return refuse(at, field, err, "is not valid UTF-8");
	if (at->field && wire_is_map(at->field))
		return 0; /* any text is valid; check_map_size() limits the map as a whole */
	if (has_control((const char *)s.p, n, controls_of(field->name)))
		return refuse(at, field, err, "contains a control character");
	/* CSI has one limit for all mount flags together. */
	tally->bytes += n;
	if (str_eq(field->name, "mount_flags"))
		n = tally->bytes;
	if (n <= max)
		return 0;
	str_addf(&what, "is %zu bytes long, the limit is %zu", n, max);
	return refuse(at, field, err, what.ptr);
}

/*
 * Adds the size of the key and value of one entry to the size of its map. An entry counts as at
 * least one byte, so that the number of empty entries is also limited.
 */
static int check_map_size(const struct open_message *at, const ProtobufCFieldDescriptor *field,
                          struct bytes entry, struct tally *tally, struct err *err)
{
	size_t max = wire_is_secret(field) ? LIMIT_FIELD_SECRETS : LIMIT_FIELD_MAP, n = 0;
	struct str what AUTO(str_clear) = STR_INIT(100);
	struct bytes value;
	enum wire_type type;
	uint32_t id;

	while (entry.p < entry.end && take_tag(&entry, &id, &type) &&
	       take_value(&entry, type, &value))
		n += (size_t)(value.end - value.p);
	tally->bytes += n ? n : 1;
	if (tally->bytes <= max)
		return 0;
	str_addf(&what, "is longer than %zu bytes (keys and values together)", max);
	return refuse(at, field, err, what.ptr);
}

static struct bytes map_key(struct bytes entry)
{
	struct bytes value, key = { entry.p, entry.p };
	enum wire_type type;
	uint32_t id;

	while (entry.p < entry.end && take_tag(&entry, &id, &type) &&
	       take_value(&entry, type, &value))
		if (id == 1 && type == WIRE_LEN)
			key = value;
	return key;
}

static int check_message(const struct open_message *at, struct bytes in, struct err *err);

static int check_submessage(const struct open_message *at, const ProtobufCFieldDescriptor *field,
                            struct bytes value, struct tally *tally, struct err *err)
{
	struct open_message below = { .up = at,
		                      .message = field->descriptor,
		                      .field = field,
		                      .index = tally->count++,
		                      .depth = at->depth + 1,
		                      .unknown = at->unknown };

	if (below.depth > MAX_DEPTH)
		return refuse_malformed(at, err, "nested too deeply");
	if (wire_is_map(field)) {
		if (check_map_size(at, field, value, tally, err))
			return -1;
		below.key = map_key(value);
	} else if (field->label != PROTOBUF_C_LABEL_REPEATED && below.index > 0) {
		/*
		 * protobuf would merge the two messages, and each may be within a limit that both
		 * together exceed. No encoder writes a message twice.
		 */
		return refuse(at, field, err, "occurs twice");
	}
	return check_message(&below, value, err);
}

static int check_message(const struct open_message *at, struct bytes in, struct err *err)
{
	struct tally tallies[MAX_FIELDS] = { 0 };

	while (in.p < in.end) {
		const ProtobufCFieldDescriptor *field;
		struct tally *tally;
		enum wire_type type;
		struct bytes value;
		uint32_t id;

		if (!take_tag(&in, &id, &type))
			return refuse_malformed(at, err, "expected a field number");
		if (!take_value(&in, type, &value))
			return refuse_malformed(at, err,
			                        "a value is truncated, or its type is unknown");
		field = protobuf_c_message_descriptor_get_field(at->message, id);
		if (!field) {
			*at->unknown = true; /* from a newer CSI version */
			continue;
		}
		if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (type != WIRE_LEN)
			return refuse_malformed(at, err,
			                        "a value does not have the type of its field");
		if (field - at->message->fields >= MAX_FIELDS)
			return err_set(err, ERR_INTERNAL,
			               "%s has more fields than wire_check knows",
			               at->message->name);
		tally = &tallies[field - at->message->fields];
		if (field->type == PROTOBUF_C_TYPE_STRING
		            ? check_string(at, field, value, tally, err)
		            : check_submessage(at, field, value, tally, err))
			return -1;
	}
	return 0;
}

int wire_check(const ProtobufCMessageDescriptor *d, const uint8_t *in, size_t n, struct err *err)
{
	bool unknown = false;
	struct open_message top = { .message = d, .unknown = &unknown };
	static const uint8_t nothing[1];

	if (!in)
		in = nothing;
	if (check_message(&top, (struct bytes) { in, in + n }, err))
		return -1;
	return unknown ? WIRE_HAS_UNKNOWN : 0;
}
