/* SPDX-License-Identifier: Apache-2.0 */
/* Of map entries with the same key the last one is kept, in every map. */
#include <stdio.h>
#include <string.h>

#include "csi/csi.pb-c.h"

#include "common/mem.h"
#include "rpc/wire_check.h"
#include "test/lib/suite.h"

typedef Csi__V1__CreateVolumeRequest__ParametersEntry entry;

static const struct {
	const char *what, *in, *out; /* one letter per key, one digit per value */
} rows[] = {
	{ "nothing", "", "" },
	{ "one", "a1", "a1" },
	{ "different keys keep their order", "c1a2b3", "c1a2b3" },
	{ "the last of two", "a1a2", "a2" },
	{ "the last of three, others between", "a1b2a3c4a5", "b2c4a5" },
	{ "the same value", "a1a1", "a1" },
	{ "all doubled", "a1b2c3a4b5c6", "a4b5c6" },
};

START_TEST(the_last_value_of_a_key_stays)
{
	struct arena arena = ARENA_INIT(0);
	Csi__V1__CreateVolumeRequest req = CSI__V1__CREATE_VOLUME_REQUEST__INIT;
	size_t n = strlen(rows[_i].in) / 2;
	char out[32] = "";

	req.parameters = arena_alloc(&arena, (n + 1) * sizeof(*req.parameters));
	for (size_t i = 0; i < n; i++) {
		req.parameters[i] = arena_alloc(&arena, sizeof(entry));
		*req.parameters[i] = (entry)CSI__V1__CREATE_VOLUME_REQUEST__PARAMETERS_ENTRY__INIT;
		req.parameters[i]->key = arena_printf(&arena, "%c", rows[_i].in[2 * i]);
		req.parameters[i]->value = arena_printf(&arena, "%c", rows[_i].in[2 * i + 1]);
	}
	req.n_parameters = n;
	wire_settle(&req.base);
	for (size_t i = 0; i < req.n_parameters; i++)
		snprintf(out + 2 * i, sizeof(out) - 2 * i, "%s%s", req.parameters[i]->key,
		         req.parameters[i]->value);
	ROW_STR_EQ(rows[_i].what, out, rows[_i].out);
	arena_clear(&arena);
}
END_TEST

START_TEST(maps_below_lists_and_messages_are_settled_too)
{
	/* accessibility_requirements.requisite[0].segments {a: 1}, {a: 2} */
	static const uint8_t in[] = "\x3a\x12\x0a\x10\x0a\x06\x0a\x01"
				    "a\x12\x01"
				    "1\x0a\x06\x0a\x01"
				    "a\x12\x01"
				    "2";
	Csi__V1__CreateVolumeRequest *req =
		csi__v1__create_volume_request__unpack(NULL, sizeof(in) - 1, in);
	Csi__V1__Topology__SegmentsEntry *lost;
	Csi__V1__Topology *t;

	ck_assert_ptr_nonnull(req);
	t = req->accessibility_requirements->requisite[0];
	ck_assert_uint_eq(t->n_segments, 2);
	lost = t->segments[0];
	wire_settle(&req->base);
	ck_assert_uint_eq(t->n_segments, 1);
	ck_assert_str_eq(t->segments[0]->value, "2");
	/* There is no arena here, so the removed entry has to be freed. */
	protobuf_c_message_free_unpacked(&lost->base, NULL);
	csi__v1__create_volume_request__free_unpacked(req, NULL);
}
END_TEST

START_TEST(secrets_are_overwritten_and_other_maps_are_kept)
{
	/* secrets {a: "12"}, {a: "34"}, {b: "56"}; volume_context {a: "78"} */
	static const uint8_t in[] = "\x2a\x07\x0a\x01"
				    "a\x12\x02"
				    "12\x2a\x07\x0a\x01"
				    "a\x12\x02"
				    "34\x2a\x07\x0a\x01"
				    "b\x12\x02"
				    "56\x32\x07\x0a\x01"
				    "a\x12\x02"
				    "78";
	Csi__V1__NodeStageVolumeRequest *req =
		csi__v1__node_stage_volume_request__unpack(NULL, sizeof(in) - 1, in);
	Csi__V1__NodeStageVolumeRequest__SecretsEntry *lost;

	ck_assert_ptr_nonnull(req);
	ck_assert_uint_eq(req->n_secrets, 3);
	lost = req->secrets[0];
	wire_settle(&req->base);
	ck_assert_uint_eq(req->n_secrets, 2);
	ck_assert_mem_eq(lost->value, "\0\0", 3);
	ck_assert_str_eq(req->secrets[0]->value, "34");
	wire_forget_secrets(&req->base);
	ck_assert_mem_eq(req->secrets[0]->value, "\0\0", 3);
	ck_assert_mem_eq(req->secrets[1]->value, "\0\0", 3);
	ck_assert_str_eq(req->volume_context[0]->value, "78");
	protobuf_c_message_free_unpacked(&lost->base, NULL);
	csi__v1__node_stage_volume_request__free_unpacked(req, NULL);
}
END_TEST

SUITE("wire_maps", LOOP(the_last_value_of_a_key_stays, ARRAY_LEN(rows)),
      maps_below_lists_and_messages_are_settled_too,
      secrets_are_overwritten_and_other_maps_are_kept);
