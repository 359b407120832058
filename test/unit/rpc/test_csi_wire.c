/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the RPC handlers: replies, required fields, maps in both directions, the volume key. */
#include <string.h>

#include "csi/csi.pb-c.h"

#include "common/cleanup.h"
#include "common/str.h"
#include "rpc/csi_wire.h"
#include "test/lib/suite.h"

static struct rpc_call call;

static void setup(void)
{
	rpc_call_init(&call, "/csi.v1.Node/NodeStageVolume");
}

static void teardown(void)
{
	rpc_call_clear(&call);
}

START_TEST(a_reply_is_handed_out_when_it_is_allocated)
{
	ProtobufCMessage *resp = NULL;
	Csi__V1__ProbeResponse *reply;

	setup();
	reply = CSI_REPLY(&call, &resp, csi__v1__probe_response);
	ck_assert_ptr_eq(resp, &reply->base);
	ck_assert_ptr_eq(resp->descriptor, &csi__v1__probe_response__descriptor);
	teardown();
}
END_TEST

START_TEST(a_required_field_that_is_missing_is_named)
{
	static const char *const missing[] = { NULL, "" };
	struct err err = ERR_INIT;

	ck_assert_int_eq(csi_require("pvc-1", "VolumeId", &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
		err_clear(&err);
		ck_assert_int_eq(csi_require(missing[i], "VolumeId", &err), -1);
		ck_assert_int_eq(err.code, ERR_INVALID);
		ck_assert_str_eq(err.msg, "VolumeId: field is required");
	}
}
END_TEST

START_TEST(a_map_comes_back_as_it_was_set)
{
	static const struct kv pairs[] = { { "a", "1" }, { "b", "" }, { "c", "3" } };
	Csi__V1__Volume volume = CSI__V1__VOLUME__INIT;

	for (size_t n = 0; n <= ARRAY_LEN(pairs); n++) {
		const struct kvs map = { pairs, n };
		struct kvs got;

		setup();
		csi_set_map(&call, &volume.base, "volume_context", &map);
		ck_assert_uint_eq(volume.n_volume_context, n);
		for (size_t i = 0; i < n; i++) {
			ck_assert_str_eq(volume.volume_context[i]->key, pairs[i].key);
			ck_assert_str_eq(volume.volume_context[i]->value, pairs[i].value);
		}
		got = csi_map(&call, &volume.base, "volume_context");
		ck_assert_uint_eq(got.n, n);
		for (size_t i = 0; i < n; i++) {
			ck_assert_ptr_eq(got.v[i].key, pairs[i].key);
			ck_assert_ptr_eq(got.v[i].value, pairs[i].value);
		}
		teardown();
	}
}
END_TEST

START_TEST(a_map_that_was_set_can_be_packed_and_unpacked)
{
	static const struct kv pairs[] = { { "nv-nvmeNsID", "1" }, { "b", "2" } };
	const struct kvs map = { pairs, ARRAY_LEN(pairs) };
	Csi__V1__ControllerPublishVolumeResponse reply =
		CSI__V1__CONTROLLER_PUBLISH_VOLUME_RESPONSE__INIT;
	Csi__V1__ControllerPublishVolumeResponse *again;
	uint8_t bytes[64];
	struct kvs got;
	size_t n;

	setup();
	csi_set_map(&call, &reply.base, "publish_context", &map);
	ck_assert_uint_le(protobuf_c_message_get_packed_size(&reply.base), sizeof(bytes));
	n = protobuf_c_message_pack(&reply.base, bytes);
	again = csi__v1__controller_publish_volume_response__unpack(NULL, n, bytes);
	ck_assert_ptr_nonnull(again);
	got = csi_map(&call, &again->base, "publish_context");
	ck_assert_uint_eq(got.n, 2);
	ck_assert_str_eq(kvs_get(&got, "nv-nvmeNsID"), "1");
	ck_assert_str_eq(kvs_get(&got, "b"), "2");
	csi__v1__controller_publish_volume_response__free_unpacked(again, NULL);
	teardown();
}
END_TEST

static const struct {
	const char *unit; /* repeated */
	size_t n, bytes;  /* of the message */
} messages[] = {
	{ "x", 0, 0 },
	{ "x", 1024, 1024 },
	{ "x", 1025, 1024 },
	{ "\xc3\xa9", 512, 1024 },
	{ "\xc3\xa9x", 400, 1023 },
	{ "\xe2\x80\xae", 999, 1024 },
	{ "\xff", 300, 1024 },
	{ "\xf0\x9f\x98\x80x", 300, 1024 },
};

START_TEST(a_health_message_fits_into_kubernetes)
{
	struct str text AUTO(str_clear) = STR_INIT(8000);
	const char *message;

	setup();
	for (size_t i = 0; i < messages[_i].n; i++)
		str_add(&text, messages[_i].unit);
	message = csi_health_message(&call, text.ptr);
	ck_assert_uint_eq(strlen(message), messages[_i].bytes);
	ck_assert(utf8_valid(message, strlen(message)));
	teardown();
}
END_TEST

START_TEST(the_volume_key_is_the_volume_id_of_any_request)
{
	Csi__V1__DeleteVolumeRequest delete = CSI__V1__DELETE_VOLUME_REQUEST__INIT;
	Csi__V1__NodePublishVolumeRequest publish = CSI__V1__NODE_PUBLISH_VOLUME_REQUEST__INIT;

	ck_assert_str_eq(csi_volume_id(&call, &delete), "");
	delete.volume_id = (char *)"pvc-1";
	publish.volume_id = (char *)"pvc-2";
	ck_assert_str_eq(csi_volume_id(&call, &delete), "pvc-1");
	ck_assert_str_eq(csi_volume_id(&call, &publish), "pvc-2");
}
END_TEST

SUITE("csi_wire", LOOP(a_health_message_fits_into_kubernetes, ARRAY_LEN(messages)),
      a_reply_is_handed_out_when_it_is_allocated, a_required_field_that_is_missing_is_named,
      a_map_comes_back_as_it_was_set, a_map_that_was_set_can_be_packed_and_unpacked,
      the_volume_key_is_the_volume_id_of_any_request);
