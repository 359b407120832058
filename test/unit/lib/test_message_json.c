/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input and output of csi-call: requests of every shape through protobuf bytes and back, and
 * refusals.
 */
#include "test/lib/message_json.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "csi/csi.pb-c.h"
#include "test/lib/suite.h"

/* JSON -> message -> bytes -> message -> JSON. */
static char *round_trip(const ProtobufCMessageDescriptor *d, const char *text, struct err *err)
{
	struct json *in AUTO(json_free) = NULL;
	struct arena arena = ARENA_INIT(0);
	ProtobufCMessage *m = NULL;
	char *result = NULL;
	if (json_parse("row", text, strlen(text), &in, err))
		return NULL;
	if (!message_from_json(d, in, &arena, &m, err)) {
		size_t n = protobuf_c_message_get_packed_size(m);
		uint8_t *bytes AUTO(free) = xmalloc(n + 1);
		struct json *out AUTO(json_free) = NULL;
		ProtobufCMessage *back;

		protobuf_c_message_pack(m, bytes);
		back = protobuf_c_message_unpack(d, NULL, n, bytes);
		ck_assert_ptr_nonnull(back);
		out = message_to_json(back);
		result = json_print(out);
		protobuf_c_message_free_unpacked(back, NULL);
	}
	arena_clear(&arena);
	return result;
}

static const struct {
	const char *what;
	const ProtobufCMessageDescriptor *d;
	const char *in, *out; /* out NULL: the same as in */
} good[] = {
	{ "nothing", &csi__v1__probe_request__descriptor, "{}", NULL },
	{ "text and a map", &csi__v1__create_volume_request__descriptor,
	  "{\"name\":\"a\",\"parameters\":{\"policy\":\"p\",\"x.y/z\":\"\"}}", NULL },
	{ "a member of a oneof, an enum, a repeated text",
	  &csi__v1__node_stage_volume_request__descriptor,
	  "{\"volume_capability\":{\"mount\":{\"fs_type\":\"xfs\",\"mount_flags\":[\"a\",\"b\"]},"
	  "\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"}}}",
	  NULL },
	{ "an empty member of a oneof", &csi__v1__volume_capability__descriptor, "{\"block\":{}}",
	  NULL },
	{ "one value where a list is wanted", &csi__v1__create_volume_request__descriptor,
	  "{\"volume_capabilities\":{\"block\":{}}}",
	  "{\"volume_capabilities\":[{\"block\":{}}]}" },
	{ "numbers as text, and exact ones", &csi__v1__capacity_range__descriptor,
	  "{\"required_bytes\":\"9223372036854775807\",\"limit_bytes\":1073741824}",
	  "{\"required_bytes\":9223372036854775807,\"limit_bytes\":1073741824}" },
	{ "a wrapper is its value", &csi__v1__probe_response__descriptor, "{\"ready\":true}",
	  NULL },
	{ "an enum by number", &csi__v1__volume_capability__access_mode__descriptor, "{\"mode\":1}",
	  "{\"mode\":\"SINGLE_NODE_WRITER\"}" },
	{ "a boolean as text", &csi__v1__controller_publish_volume_request__descriptor,
	  "{\"readonly\":\"true\"}", "{\"readonly\":true}" },
};

START_TEST(what_is_read_comes_back)
{
	struct err err = ERR_INIT;
	char *out AUTO(free) = round_trip(good[_i].d, good[_i].in, &err);
	const char *want = good[_i].out ? good[_i].out : good[_i].in;

	ck_assert_msg(out != NULL, "%s: %s", good[_i].what, err.msg);
	ck_assert_msg(str_eq(out, want), "%s: got %s", good[_i].what, out);
}
END_TEST

static const struct {
	const char *what;
	const ProtobufCMessageDescriptor *d;
	const char *in, *says;
} bad[] = {
	{ "an unknown member", &csi__v1__delete_volume_request__descriptor, "{\"volume\":\"a\"}",
	  "it has: volume_id, secrets" },
	{ "a number for text", &csi__v1__delete_volume_request__descriptor, "{\"volume_id\":1}",
	  "volume_id: a string is wanted" },
	{ "text for an object", &csi__v1__create_volume_request__descriptor,
	  "{\"capacity_range\":\"1\"}", "an object is wanted" },
	{ "no value of the enum", &csi__v1__volume_capability__access_mode__descriptor,
	  "{\"mode\":\"RWO\"}", "is no value of" },
	{ "not a number", &csi__v1__capacity_range__descriptor, "{\"limit_bytes\":\"1Gi\"}",
	  "limit_bytes" },
};

START_TEST(what_does_not_fit_is_refused_by_name)
{
	struct err err = ERR_INIT;
	char *out AUTO(free) = round_trip(bad[_i].d, bad[_i].in, &err);
	ck_assert_msg(!out, "%s: taken as %s", bad[_i].what, out);
	ck_assert_msg(strstr(err.msg, bad[_i].says) != NULL, "%s: %s", bad[_i].what, err.msg);
}
END_TEST

SUITE("message_json", LOOP(what_is_read_comes_back, ARRAY_LEN(good)),
      LOOP(what_does_not_fit_is_refused_by_name, ARRAY_LEN(bad)));
