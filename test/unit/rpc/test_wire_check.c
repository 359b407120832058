/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner over raw bytes: every rule at its boundary, and input that must never reach
 * protobuf-c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csi/csi.pb-c.h"
#include "csi/pluginregistration.pb-c.h"
#include "csi/sriovdp_control.pb-c.h"

#include "common/mem.h"
#include "rpc/wire_check.h"
#include "common/str.h"
#include "test/lib/suite.h"

#define STAGE &csi__v1__node_stage_volume_request__descriptor
#define CREATE &csi__v1__create_volume_request__descriptor
#define BYTES(s) s, sizeof(s) - 1

static const char unknown[] = "";

static const struct {
	const char *what;
	const ProtobufCMessageDescriptor *type;
	const char *in;
	size_t n;
	const char *text; /* NULL: valid; unknown: valid, and it has unknown fields */
} rows[] = {
	{ "nothing", STAGE, BYTES(""), NULL },
	{ "a string", STAGE, BYTES("\x0a\x01v"), NULL },
	{ "the last of two strings counts, both are looked at", STAGE, BYTES("\x0a\x01\0\x0a\x01v"),
	  "volume_id contains a NUL byte" },
	{ "an unknown field of each kind", STAGE,
	  BYTES("\xf8\x7f\x01\xf9\x7f"
	        "12345678"
	        "\xfd\x7f"
	        "1234\xfa\x7f\x02\0\xff"),
	  unknown },
	{ "an unknown field of a message in the message", STAGE,
	  BYTES("\x22\x06\x12\x04\xfa\x7f\x01x"), unknown },
	{ "field number 0", STAGE, BYTES("\x02\x01v"),
	  "malformed NodeStageVolumeRequest: expected a field number" },
	{ "field number 0 in two bytes", STAGE, BYTES("\x82\x00\x01v"), "expected a field number" },
	{ "a field number beyond 2^29", STAGE, BYTES("\xfa\xff\xff\xff\x1f\x00"),
	  "expected a field number" },
	{ "the largest field number", STAGE, BYTES("\xfa\xff\xff\xff\x0f\x00"), unknown },
	{ "a tag of six bytes", STAGE, BYTES("\xfa\xff\xff\xff\xff\x00\x00"),
	  "expected a field number" },
	{ "an end in a tag", STAGE, BYTES("\xfa"), "expected a field number" },
	{ "an end in a length", STAGE, BYTES("\x0a\x80"), "a value is truncated" },
	{ "an end in a string", STAGE, BYTES("\x0a\x02v"), "a value is truncated" },
	{ "a length above INT_MAX", STAGE, BYTES("\x0a\xff\xff\xff\xff\x0fv"),
	  "a value is truncated" },
	{ "a length of more than 32 bits", STAGE, BYTES("\x0a\x81\x80\x80\x80\x10v"),
	  "a value is truncated" },
	{ "a length in five bytes that is 1", STAGE, BYTES("\x0a\x81\x80\x80\x80\x00v"), NULL },
	{ "a varint of eleven bytes", STAGE,
	  BYTES("\xf8\x7f\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), "a value is truncated" },
	{ "an end in 64 bits", STAGE,
	  BYTES("\xf9\x7f"
	        "1234567"),
	  "a value is truncated" },
	{ "an end in 32 bits", STAGE,
	  BYTES("\xfd\x7f"
	        "123"),
	  "a value is truncated" },
	{ "a group", STAGE, BYTES("\xfb\x7f\xfc\x7f"), "its type is unknown" },
	{ "wire type 7", STAGE, BYTES("\xff\x7f\x00"), "its type is unknown" },
	{ "a number for a string", STAGE, BYTES("\x08\x01"),
	  "does not have the type of its field" },
	{ "32 bits for a message", STAGE,
	  BYTES("\x25"
	        "1234"),
	  "does not have the type of its field" },
	{ "a submessage that ends early", STAGE, BYTES("\x22\x03\x12\x04\x0a"),
	  "malformed NodeStageVolumeRequest, in volume_capability: a value is truncated" },
	{ "a map entry that is malformed", STAGE, BYTES("\x32\x02\x0a\x05"),
	  "malformed NodeStageVolumeRequest: a value is truncated" },
	{ "UTF-8", STAGE, BYTES("\x0a\x03\xe2\x82\xac"), NULL },
	{ "a surrogate", STAGE, BYTES("\x0a\x03\xed\xa0\x80"), "volume_id is not valid UTF-8" },
	{ "an overlong NUL", STAGE, BYTES("\x0a\x02\xc0\x80"), "volume_id is not valid UTF-8" },
	{ "the path of a repeated message", CREATE, BYTES("\x1a\x00\x1a\x06\x12\x04\x0a\x02x\0"),
	  "volume_capabilities[1].mount.fs_type contains a NUL byte" },
	{ "a list of strings", CREATE, BYTES("\x1a\x05\x12\x03\x12\x01\0"),
	  "volume_capabilities[0].mount.mount_flags contains a NUL byte" },
	{ "a map in a message in a list", CREATE,
	  BYTES("\x3a\x0a\x0a\x08\x0a\x06\x0a\x01k\x12\x01\xff"),
	  "accessibility_requirements.requisite[0].segments[\"k\"]: a value is not valid UTF-8" },
	{ "a value of a map", STAGE, BYTES("\x32\x06\x0a\x01k\x12\x01\0"),
	  "volume_context[\"k\"]: a value contains a NUL byte" },
	{ "a key that cannot be shown", STAGE, BYTES("\x32\x06\x0a\x01\xff\x12\x01v"),
	  "volume_context: a key is not valid UTF-8" },
	{ "a secret's key is not shown", STAGE, BYTES("\x2a\x06\x0a\x01k\x12\x01\0"),
	  "secrets: a value contains a NUL byte" },
	{ "a line end in a value of a map", STAGE, BYTES("\x32\x07\x0a\x01k\x12\x02v\n"), NULL },
	{ "a line end in a secret", STAGE, BYTES("\x2a\x07\x0a\x01k\x12\x02v\n"), NULL },
	{ "a message twice", STAGE, BYTES("\x22\x00\x22\x00"), "volume_capability occurs twice" },
	{ "both members of a oneof", STAGE, BYTES("\x22\x04\x0a\x00\x12\x00"), NULL },
	{ "a map entry with two keys", STAGE, BYTES("\x32\x06\x0a\x01k\x0a\x01l"), NULL },
};

START_TEST(each_rule_holds_at_its_edge)
{
	struct err err = ERR_INIT;
	int rc = wire_check(rows[_i].type, (const uint8_t *)rows[_i].in, rows[_i].n, &err);
	int fine = rows[_i].text == unknown ? WIRE_HAS_UNKNOWN : 0;

	ck_assert_msg(rc == (rows[_i].text && !fine ? -1 : fine) &&
	                      (!rows[_i].text || strstr(err.msg, rows[_i].text)),
	              "%s: %d \"%s\"", rows[_i].what, rc, err.msg);
	ck_assert(rc >= 0 || err.code == ERR_INVALID);
}
END_TEST

/* ---- lengths ---- */

static void add_varint(struct str *s, size_t v)
{
	for (; v >= 0x80; v >>= 7)
		str_addn(s, &(char) { (char)(v | 0x80) }, 1);
	str_addn(s, &(char) { (char)v }, 1);
}

static void add_text(struct str *s, unsigned field, size_t n)
{
	char *text AUTO(free) = xcalloc(n + 1, 1);

	memset(text, 'x', n);
	add_varint(s, field << 3 | 2);
	add_varint(s, n);
	str_addn(s, text, n);
}

static void add_nested(struct str *s, unsigned field, struct str *inner)
{
	add_varint(s, field << 3 | 2);
	add_varint(s, inner->len);
	str_addn(s, inner->ptr, inner->len);
}

static const struct {
	const char *what;
	const ProtobufCMessageDescriptor *type;
	unsigned field;
	size_t limit;
} strings[] = {
	{ "volume_id", STAGE, 1, 253 },
	{ "staging_target_path", STAGE, 3, 4095 },
	{ "name", CREATE, 1, 253 },
	{ "target_path", &csi__v1__node_publish_volume_request__descriptor, 4, 4095 },
	{ "volume_path", &csi__v1__node_get_volume_stats_request__descriptor, 2, 4095 },
	{ "node_id", &csi__v1__controller_publish_volume_request__descriptor, 2, 256 },
	{ "starting_token", &csi__v1__list_volumes_request__descriptor, 2, 1024 },
	{ "source_volume_id", &csi__v1__create_snapshot_request__descriptor, 1, 253 },
	{ "source_volume_ids", &csi__v1__create_volume_group_snapshot_request__descriptor, 2, 253 },
	{ "snapshot_id", &csi__v1__delete_snapshot_request__descriptor, 1, 128 },
};

START_TEST(a_string_may_be_as_long_as_its_limit)
{
	for (size_t over = 0; over < 2; over++) {
		struct str in AUTO(str_clear) = STR_INIT(10000);
		struct err err = ERR_INIT;
		char want[200];
		int rc;

		add_text(&in, strings[_i].field, strings[_i].limit + over);
		rc = wire_check(strings[_i].type, (const uint8_t *)in.ptr, in.len, &err);
		ck_assert_msg(rc == (over ? -1 : 0), "%s: %s", strings[_i].what, err.msg);
		snprintf(want, sizeof(want), "%s is %zu bytes long, the limit is %zu",
		         strings[_i].what, strings[_i].limit + 1, strings[_i].limit);
		if (over)
			ck_assert_str_eq(err.msg, want);
	}
}
END_TEST

static int check_map(unsigned field, size_t entries, size_t key, size_t value, struct err *err)
{
	struct str in AUTO(str_clear) = STR_INIT(1 << 20);

	for (size_t i = 0; i < entries; i++) {
		struct str entry AUTO(str_clear) = STR_INIT(1 << 20);

		if (key)
			add_text(&entry, 1, key);
		if (value)
			add_text(&entry, 2, value);
		add_nested(&in, field, &entry);
	}
	return wire_check(STAGE, (const uint8_t *)in.ptr, in.len, err);
}

static const struct {
	const char *what;
	unsigned field;
	size_t entries, key, value;
	const char *text;
} maps[] = {
	{ "a context of 4096 bytes", 6, 16, 100, 156, NULL },
	{ "a context of 4112 bytes", 6, 16, 100, 157, "volume_context is longer than 4096 bytes" },
	{ "one long value", 6, 1, 0, 4096, NULL },
	{ "one value too long", 6, 1, 0, 4097, "volume_context is longer than 4096 bytes" },
	{ "empty entries", 6, 4096, 0, 0, NULL },
	{ "too many empty entries", 6, 4097, 0, 0, "volume_context is longer than 4096 bytes" },
	{ "secrets of 64 KiB", 5, 1, 536, 65000, NULL },
	{ "secrets above", 5, 1, 537, 65000, "secrets is longer than 65536 bytes" },
};

START_TEST(a_map_is_measured_as_a_whole)
{
	struct err err = ERR_INIT;
	int rc = check_map(maps[_i].field, maps[_i].entries, maps[_i].key, maps[_i].value, &err);

	ck_assert_msg(rc == (maps[_i].text ? -1 : 0) &&
	                      (!maps[_i].text || strstr(err.msg, maps[_i].text)),
	              "%s: %d \"%s\"", maps[_i].what, rc, err.msg);
}
END_TEST

START_TEST(all_mount_flags_have_one_limit)
{
	for (unsigned n = 8; n <= 9; n++) {
		struct str mount AUTO(str_clear) = STR_INIT(10000),
				 cap AUTO(str_clear) = STR_INIT(10000),
				 in AUTO(str_clear) = STR_INIT(10000);
		struct err err = ERR_INIT;

		for (unsigned i = 0; i < n; i++)
			add_text(&mount, 2, 512);
		add_nested(&cap, 2, &mount);
		add_nested(&in, 4, &cap);
		ck_assert_int_eq(wire_check(STAGE, (const uint8_t *)in.ptr, in.len, &err),
		                 n == 8 ? 0 : -1);
		if (n == 9)
			ck_assert_str_eq(
				err.msg,
				"volume_capability.mount.mount_flags is 4608 bytes long, the limit is 4096");
	}
}
END_TEST

/* ---- control characters ---- */

/*
 * The smallest request that has this string; `prefix` is the message's path, "volume_capability.".
 */
static void check_control(const ProtobufCMessageDescriptor *request, const unsigned *path, size_t n,
                          const ProtobufCFieldDescriptor *field, const char *text, bool is_fine)
{
	struct str in AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	int rc;

	add_varint(&in, field->id << 3 | 2);
	add_varint(&in, strlen(text));
	str_add(&in, text);
	for (size_t i = n; i > 0; i--) {
		struct str outer AUTO(str_clear) = STR_INIT(1000);

		add_nested(&outer, path[i - 1], &in);
		str_reset(&in);
		str_addn(&in, outer.ptr, outer.len);
	}
	rc = wire_check(request, (const uint8_t *)in.ptr, in.len, &err);
	ck_assert_msg(rc == (is_fine ? 0 : -1), "%s: %s: %d %s", request->short_name, field->name,
	              rc, err.msg);
	ck_assert_msg(is_fine || (err.code == ERR_INVALID && strstr(err.msg, field->name) &&
	                          strstr(err.msg, "contains a control character")),
	              "%s", err.msg);
}

static unsigned strings_seen;

static void check_strings(const ProtobufCMessageDescriptor *request,
                          const ProtobufCMessageDescriptor *d, unsigned path[8], size_t n)
{
	static const char *const controls[] = { "a\nb", "\t",   "a\r",      "\x01",
		                                "\x1b", "\x7f", "\xc2\x80", "x\xc2\x9fx" };

	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		bool has_lines = str_eq(f->name, "name") || str_eq(f->name, "error");

		if (f->type == PROTOBUF_C_TYPE_MESSAGE && !wire_is_map(f)) {
			ck_assert_uint_lt(n, 8);
			path[n] = f->id;
			check_strings(request, f->descriptor, path, n + 1);
		}
		if (f->type != PROTOBUF_C_TYPE_STRING)
			continue;
		strings_seen++;
		for (size_t k = 0; k < ARRAY_LEN(controls); k++)
			check_control(request, path, n, f, controls[k], has_lines && k < 3);
		check_control(request, path, n, f, "\xc2\xa0 pvc-1", true);
	}
}

/* CSI permits tabs and line ends in a name. kubelet's reason is text for people. */
START_TEST(only_names_and_reasons_have_line_ends_and_nothing_has_other_control_characters)
{
	const ProtobufCServiceDescriptor *services[] = {
		&csi__v1__controller__descriptor,
		&csi__v1__group_controller__descriptor,
		&csi__v1__snapshot_metadata__descriptor,
		&csi__v1__node__descriptor,
		&pluginregistration__registration__descriptor,
		&sriovdp__control__v1__control_service__descriptor,
	};
	unsigned path[8];

	for (size_t i = 0; i < ARRAY_LEN(services); i++)
		for (unsigned k = 0; k < services[i]->n_methods; k++)
			check_strings(services[i]->methods[k].input, services[i]->methods[k].input,
			              path, 0);
	ck_assert_uint_gt(strings_seen, 40);
}
END_TEST

/* ---- against protobuf-c ---- */

/*
 * An allocator that records sizes: protobuf-c requests exactly length + 1 bytes for a string, so a
 * string with an embedded NUL is detected.
 */
struct memory {
	struct {
		void *p;
		size_t n;
	} blocks[200];
	size_t n;
};

static void *memory_alloc(void *arg, size_t n)
{
	struct memory *memory = arg;

	ck_assert_uint_lt(memory->n, ARRAY_LEN(memory->blocks));
	memory->blocks[memory->n].p = xcalloc(1, n);
	memory->blocks[memory->n].n = n;
	return memory->blocks[memory->n++].p;
}

static void memory_keep(void *arg, void *p)
{
	(void)arg;
	(void)p;
}

static void memory_clear(struct memory *memory)
{
	while (memory->n)
		free(memory->blocks[--memory->n].p);
}

static void check_text(const struct memory *memory, const char *text)
{
	size_t i = 0;

	if (text == protobuf_c_empty_string)
		return;
	while (i < memory->n && memory->blocks[i].p != text)
		i++;
	ck_assert_uint_lt(i, memory->n);
	ck_assert_uint_eq(strlen(text) + 1, memory->blocks[i].n);
	ck_assert(utf8_valid(text, strlen(text)));
}

static void check_texts(const struct memory *memory, const ProtobufCMessage *m)
{
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const char *base = (const char *)m;
		const void *member = base + f->offset;
		bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
		const void *const *all = repeated ? *(const void *const *const *)member : member;
		size_t n = repeated ? *(const size_t *)(base + f->quantifier_offset) : 1;

		if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
		    *(const uint32_t *)(base + f->quantifier_offset) != f->id)
			continue;
		for (size_t k = 0; k < n; k++)
			if (f->type == PROTOBUF_C_TYPE_STRING)
				check_text(memory, all[k]);
			else if (f->type == PROTOBUF_C_TYPE_MESSAGE && all[k])
				check_texts(memory, all[k]);
	}
}

START_TEST(random_damage_never_gets_a_short_string_through)
{
	static const char good[] =
		"\x0a\x04pvc1\x12\x08\x0a\x01k\x12\x03val\x1a\x04/a/b\x22\x0c\x12\x06\x0a\x04"
		"ext4\x1a\x02\x08\x01\x32\x06\x0a\x01k\x12\x01v";
	unsigned seed = 20260731;
	int passed = 0;

	for (int i = 0; i < 200000; i++) {
		uint8_t in[sizeof(good) - 1];
		struct err err = ERR_INIT;
		struct memory memory = { .n = 0 };
		ProtobufCAllocator allocator = { memory_alloc, memory_keep, &memory };
		ProtobufCMessage *m;

		memcpy(in, good, sizeof(in));
		for (int k = 0; k <= i % 4; k++)
			in[(size_t)rand_r(&seed) % sizeof(in)] = (uint8_t)rand_r(&seed);
		if (wire_check(STAGE, in, sizeof(in), &err) < 0)
			continue;
		m = protobuf_c_message_unpack(STAGE, &allocator, sizeof(in), in);
		if (m)
			check_texts(&memory, m);
		passed += m != NULL;
		memory_clear(&memory);
	}
	ck_assert_int_gt(passed, 1000);
}
END_TEST

/* ---- descriptors ---- */

static unsigned widest;

static void walk(const ProtobufCMessageDescriptor *d, unsigned depth)
{
	ck_assert_uint_lt(depth, 8);
	if (d->n_fields > widest)
		widest = d->n_fields;
	for (unsigned i = 0; i < d->n_fields; i++)
		if (d->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
			walk(d->fields[i].descriptor, depth + 1);
}

START_TEST(csi_fits_into_the_scanner)
{
	const ProtobufCServiceDescriptor *services[] = {
		&csi__v1__identity__descriptor,
		&csi__v1__controller__descriptor,
		&csi__v1__group_controller__descriptor,
		&csi__v1__snapshot_metadata__descriptor,
		&csi__v1__node__descriptor,
	};

	for (size_t i = 0; i < ARRAY_LEN(services); i++)
		for (unsigned k = 0; k < services[i]->n_methods; k++)
			walk(services[i]->methods[k].input, 0);
	ck_assert_uint_eq(widest, 8); /* the scanner has space for 16 */
}
END_TEST

SUITE_TIMEOUT("wire_check", 60, LOOP(each_rule_holds_at_its_edge, ARRAY_LEN(rows)),
              LOOP(a_string_may_be_as_long_as_its_limit, ARRAY_LEN(strings)),
              LOOP(a_map_is_measured_as_a_whole, ARRAY_LEN(maps)), all_mount_flags_have_one_limit,
              only_names_and_reasons_have_line_ends_and_nothing_has_other_control_characters,
              random_damage_never_gets_a_short_string_through, csi_fits_into_the_scanner);
