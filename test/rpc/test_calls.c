/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single calls: received requests, answers, and requests that are refused before a handler sees
 * them.
 */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/identity_csi.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

START_TEST(plugin_info_names_the_driver)
{
	SETUP(f);
	Csi__V1__GetPluginInfoRequest req = CSI__V1__GET_PLUGIN_INFO_REQUEST__INIT;
	Csi__V1__GetPluginInfoResponse *r;
	struct rpc_answer answer;

	rpc_client_call(f.client, "/csi.v1.Identity/GetPluginInfo", &req.base,
	                &csi__v1__get_plugin_info_response__descriptor, WAIT_LIMIT_MS,
	                (ProtobufCMessage **)&r, &answer);
	ck_assert_int_eq(answer.code, ERR_OK);
	ck_assert_str_eq(r->name, "stub.csi.example.com");
	ck_assert_str_eq(r->vendor_version, "1.2.3");
	protobuf_c_message_free_unpacked(&r->base, NULL);
	rpc_answer_clear(&answer);
}
END_TEST

START_TEST(probe_is_ready)
{
	SETUP(f);
	Csi__V1__ProbeRequest req = CSI__V1__PROBE_REQUEST__INIT;
	Csi__V1__ProbeResponse *r;
	struct rpc_answer answer;

	rpc_client_call(f.client, PROBE, &req.base, &csi__v1__probe_response__descriptor, -1,
	                (ProtobufCMessage **)&r, &answer);
	ck_assert_int_eq(answer.code, ERR_OK);
	ck_assert(r->ready && r->ready->value);
	protobuf_c_message_free_unpacked(&r->base, NULL);
	rpc_answer_clear(&answer);
}
END_TEST

START_TEST(plugin_capabilities_are_those_given)
{
	SETUP(f);
	Csi__V1__GetPluginCapabilitiesRequest req = CSI__V1__GET_PLUGIN_CAPABILITIES_REQUEST__INIT;
	Csi__V1__GetPluginCapabilitiesResponse *r;
	struct rpc_answer answer;

	rpc_client_call(f.client, "/csi.v1.Identity/GetPluginCapabilities", &req.base,
	                &csi__v1__get_plugin_capabilities_response__descriptor, WAIT_LIMIT_MS,
	                (ProtobufCMessage **)&r, &answer);
	ck_assert_int_eq(answer.code, ERR_OK);
	ck_assert_uint_eq(r->n_capabilities, 1);
	ck_assert_int_eq(r->capabilities[0]->service->type,
	                 CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE);
	protobuf_c_message_free_unpacked(&r->base, NULL);
	rpc_answer_clear(&answer);
}
END_TEST

START_TEST(a_worker_answers_node_capabilities)
{
	SETUP(f);
	Csi__V1__NodeGetCapabilitiesRequest req = CSI__V1__NODE_GET_CAPABILITIES_REQUEST__INIT;
	Csi__V1__NodeGetCapabilitiesResponse *r;
	struct rpc_answer answer;

	rpc_client_call(f.client, "/csi.v1.Node/NodeGetCapabilities", &req.base,
	                &csi__v1__node_get_capabilities_response__descriptor, WAIT_LIMIT_MS,
	                (ProtobufCMessage **)&r, &answer);
	ck_assert_int_eq(answer.code, ERR_OK);
	ck_assert_uint_eq(r->n_capabilities, 1);
	ck_assert_int_eq(r->capabilities[0]->rpc->type,
	                 CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__STAGE_UNSTAGE_VOLUME);
	protobuf_c_message_free_unpacked(&r->base, NULL);
	rpc_answer_clear(&answer);
}
END_TEST

/* ---- bytes as they are ---- */

struct row {
	const char *what, *method;
	const char *in;
	size_t n;
	int code;
	const char *text; /* a part of it */
};

#define BYTES(s) s, sizeof(s) - 1

static const struct row rows[] = {
	{ "a method of the interface that is not implemented", "/csi.v1.Node/NodeGetInfo",
	  BYTES(""), ERR_UNIMPLEMENTED, "no method /csi.v1.Node/NodeGetInfo" },
	{ "a service of the interface that is not served",
	  "/csi.v1.GroupController/DeleteVolumeGroupSnapshot", BYTES(""), ERR_UNIMPLEMENTED,
	  "no method /csi.v1.Group" },
	{ "a streaming method", "/csi.v1.SnapshotMetadata/GetMetadataDelta", BYTES(""),
	  ERR_UNIMPLEMENTED, "no method" },
	{ "a method nobody knows", "/foo.Bar/Baz", BYTES(""), ERR_UNIMPLEMENTED, "/foo.Bar/Baz" },
	{ "a path without a method", "/csi.v1.Node/", BYTES(""), ERR_UNIMPLEMENTED, "no method" },
	{ "a path that is one slash", "/", BYTES(""), ERR_UNIMPLEMENTED, "no method" },
	{ "garbage for Probe", PROBE, BYTES("\xff\xff\xff"), ERR_INVALID,
	  "malformed ProbeRequest" },
	{ "a length beyond the end", STAGE, BYTES("\x0a\xff\xff\xff\xff\x0f"), ERR_INVALID,
	  "malformed NodeStageVolumeRequest" },
	{ "a number where a string is due", STAGE, BYTES("\x08\x01"), ERR_INVALID,
	  "malformed NodeStageVolumeRequest" },
	{ "a group", STAGE, BYTES("\x0b\x0c"), ERR_INVALID, "malformed" },
	{ "a NUL in volume_id", STAGE,
	  BYTES("\x0a\x05"
	        "a\0bcd"),
	  ERR_INVALID, "volume_id contains a NUL byte" },
	{ "volume_id that is not UTF-8", STAGE, BYTES("\x0a\x05len\xff\xfe"), ERR_INVALID,
	  "volume_id is not valid UTF-8" },
	{ "a NUL deep inside", STAGE, BYTES("\x22\x06\x12\x04\x0a\x02x\0"), ERR_INVALID,
	  "volume_capability.mount.fs_type contains a NUL byte" },
	{ "a NUL in the value of a context", STAGE, BYTES("\x32\x09\x0a\x01k\x12\x04v\0vv"),
	  ERR_INVALID, "volume_context[\"k\"]: a value contains a NUL byte" },
	{ "a NUL in a key of a context", STAGE, BYTES("\x32\x05\x0a\x03k\0k"), ERR_INVALID,
	  "volume_context: a key contains a NUL byte" },
	{ "an unknown field is ignored", STAGE, BYTES("\xfa\x7f\x02hi"), ERR_OK, "" },
	{ "a capability twice", STAGE, BYTES("\x22\x00\x22\x00"), ERR_INVALID,
	  "volume_capability occurs twice" },
};

START_TEST(bytes_get_their_answer)
{
	const struct row *row = &rows[_i];
	SETUP(f);
	struct rpc_answer answer;

	rpc_client_call_bytes(f.client, row->method, row->in, row->n, WAIT_LIMIT_MS, &answer);
	ck_assert_msg(answer.code == row->code && strstr(answer.text, row->text),
	              "%s: code %d, text \"%s\"", row->what, answer.code, answer.text);
	rpc_answer_clear(&answer);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
}
END_TEST

static const struct {
	const char *what;
	int field; /* of NodeStageVolumeRequest: 1 volume_id, 3 staging_target_path */
	size_t n;
	int code;
} lengths[] = {
	{ "volume_id of 253 bytes", 1, 253, ERR_OK },
	{ "volume_id of 254 bytes", 1, 254, ERR_INVALID },
	{ "a path of 4095 bytes", 3, 4095, ERR_OK },
	{ "a path of 4096 bytes", 3, 4096, ERR_INVALID },
};

START_TEST(lengths_are_limited_by_field)
{
	SETUP(f);
	char *long_text AUTO(free) = xcalloc(lengths[_i].n + 1, 1);
	char text[1100];
	int code;

	memset(long_text, 'x', lengths[_i].n);
	code = stage(f.client, lengths[_i].field == 1 ? long_text : "v",
	             lengths[_i].field == 3 ? long_text : "", WAIT_LIMIT_MS, text);
	ck_assert_msg(code == lengths[_i].code, "%s: %d %s", lengths[_i].what, code, text);
	if (code != ERR_OK)
		ck_assert_ptr_nonnull(
			strstr(text, lengths[_i].field == 1
		                             ? "volume_id is 254 bytes long, the limit is 253"
		                             : "staging_target_path is 4096 bytes long"));
}
END_TEST

START_TEST(the_last_of_equal_map_keys_counts)
{
	/* volume_context {a: 1}, {b: 2}, {a: 3}; staging_target_path "contexts" */
	static const char in[] = "\x1a\x08"
				 "contexts"
				 "\x32\x06\x0a\x01"
				 "a\x12\x01"
				 "1"
				 "\x32\x06\x0a\x01"
				 "b\x12\x01"
				 "2"
				 "\x32\x06\x0a\x01"
				 "a\x12\x01"
				 "3";
	SETUP(f);
	struct rpc_answer answer;

	rpc_client_call_bytes(f.client, STAGE, in, sizeof(in) - 1, WAIT_LIMIT_MS, &answer);
	ck_assert_str_eq(answer.text, "b=2;a=3;");
	rpc_answer_clear(&answer);
}
END_TEST

/* ---- what a handler sees and says ---- */

START_TEST(an_odd_text_arrives_whole_and_can_be_shown)
{
	SETUP(f);
	char text[1100];

	ck_assert_int_eq(stage(f.client, "v", "odd-text", WAIT_LIMIT_MS, text), ERR_INVALID);
	ck_assert_str_eq(text,
	                 "first line\\n(\xc3\xbcn\xc3\xaf 100 %) \\u001b[31m \\u202e \\ \\xff");
}
END_TEST

START_TEST(the_deadline_reaches_the_handler)
{
	SETUP(f);
	char text[1100];
	long left;

	ck_assert_int_eq(stage(f.client, "v", "deadline", 3000000, text), ERR_RANGE);
	left = strtol(text + strlen("left="), NULL, 10);
	/* gRPC rounds the deadline up on its way. */
	ck_assert_msg(left > 2000000 && left <= 3030000, "%s", text);
}
END_TEST

START_TEST(no_deadline_is_never)
{
	SETUP(f);
	char text[1100];

	ck_assert_int_eq(stage(f.client, "v", "deadline", -1, text), ERR_RANGE);
	ck_assert_str_eq(text, "left=never");
}
END_TEST

START_TEST(the_peer_is_known_by_its_pid)
{
	SETUP(f);
	char text[1100], want[32];

	snprintf(want, sizeof(want), "pid=%d", (int)getpid());
	ck_assert_int_eq(stage(f.client, "v", "peer", WAIT_LIMIT_MS, text), ERR_RANGE);
	ck_assert_str_eq(text, want);
}
END_TEST

START_TEST(metadata_does_no_harm)
{
	SETUP(f);
	struct rpc_answer answer;

	rpc_pending_wait(
		rpc_client_start_with(f.client, PROBE, NULL, 0, WAIT_LIMIT_MS, "traceparent",
	                              "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
		&answer);
	ck_assert_int_eq(answer.code, ERR_OK);
	rpc_answer_clear(&answer);
}
END_TEST

START_TEST(success_without_an_answer_is_an_internal_error)
{
	SETUP(f);
	char text[1100];

	ck_assert_int_eq(stage(f.client, "v", "nothing", WAIT_LIMIT_MS, text), ERR_INTERNAL);
	ck_assert_str_eq(text, "NodeStageVolume ended without an answer");
}
END_TEST

START_TEST(a_call_without_a_message_is_an_error)
{
	SETUP(f);
	struct rpc_answer answer;

	rpc_pending_wait(rpc_client_start_stream(f.client, PROBE, NULL, 0, 0, WAIT_LIMIT_MS),
	                 &answer);
	ck_assert_int_eq(answer.code, ERR_INTERNAL);
	rpc_answer_clear(&answer);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
}
END_TEST

START_TEST(a_second_message_is_ignored)
{
	SETUP(f);
	struct rpc_answer answer;

	rpc_pending_wait(rpc_client_start_stream(f.client, PROBE, NULL, 0, 2, WAIT_LIMIT_MS),
	                 &answer);
	ck_assert_int_eq(answer.code, ERR_OK);
	rpc_answer_clear(&answer);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
}
END_TEST

START_TEST(two_operations_on_one_volume_exclude_each_other)
{
	SETUP(f);
	struct rpc_pending *first = stage_start(f.client, "pvc-1", "sleep:86400000", -1);
	struct rpc_answer answer;
	char text[1100];

	ck_assert(reaches(&f.stub.entered, 1));
	ck_assert_int_eq(stage(f.client, "pvc-1", "", WAIT_LIMIT_MS, text), ERR_ABORTED);
	ck_assert_msg(strstr(text, "volume pvc-1: NodeStageVolume has been running for") != NULL,
	              "%s", text);
	ck_assert_int_eq(stage(f.client, "pvc-2", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	rpc_pending_cancel(first);
	ck_assert_int_eq(rpc_pending_wait(first, &answer), ERR_CANCELLED);
	rpc_answer_clear(&answer);
	ck_assert(reaches(&f.stub.cancelled, 1));
}
END_TEST

SUITE_TIMEOUT("rpc calls", 60, plugin_info_names_the_driver, probe_is_ready,
              plugin_capabilities_are_those_given, a_worker_answers_node_capabilities,
              LOOP(bytes_get_their_answer, ARRAY_LEN(rows)),
              LOOP(lengths_are_limited_by_field, ARRAY_LEN(lengths)),
              the_last_of_equal_map_keys_counts, an_odd_text_arrives_whole_and_can_be_shown,
              the_deadline_reaches_the_handler, no_deadline_is_never, the_peer_is_known_by_its_pid,
              metadata_does_no_harm, success_without_an_answer_is_an_internal_error,
              a_call_without_a_message_is_an_error, a_second_message_is_ignored,
              two_operations_on_one_volume_exclude_each_other);
