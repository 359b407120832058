/* SPDX-License-Identifier: Apache-2.0 */
/* The log line of a call: its fields at each verbosity, and fields that it never has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csi/csi.pb-c.h"

#include "common/deadline.h"
#include "common/json.h"
#include "common/log.h"
#include "rpc/rpc_log.h"
#include "common/str.h"
#include "test/lib/suite.h"

static char last[8300];

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	snprintf(last, sizeof(last), "%s", line);
}

/* The line without the time and other parts that differ between runs. */
static const char *logged(int verbosity, bool json, const ProtobufCMessage *req,
                          const struct rpc_method *method, const struct err *err)
{
	struct rpc_call call;

	log_setup(verbosity, json);
	log_redirect(keep_line, NULL);
	*last = '\0';
	rpc_call_init(&call, "/csi.v1.Node/NodeStageVolume");
	call.peer_pid = 42;
	if (req)
		rpc_log_request(&call, req);
	rpc_log_call(&call, method, err);
	rpc_call_clear(&call);
	log_redirect(NULL, NULL);
	return last;
}

static const struct rpc_method loud = { .name = "NodeStageVolume" };
static const struct rpc_method quiet = { .name = "Probe", .quiet = true };

static Csi__V1__NodeStageVolumeRequest__VolumeContextEntry context[] = {
	{ PROTOBUF_C_MESSAGE_INIT(
		  &csi__v1__node_stage_volume_request__volume_context_entry__descriptor),
	  (char *)"csi.storage.k8s.io/serviceAccount.tokens", (char *)"tok-value" },
	{ PROTOBUF_C_MESSAGE_INIT(
		  &csi__v1__node_stage_volume_request__volume_context_entry__descriptor),
	  (char *)"policy", (char *)"gold-value" },
};
static Csi__V1__NodeStageVolumeRequest__VolumeContextEntry *contexts[] = { &context[0],
	                                                                   &context[1] };
static Csi__V1__NodeStageVolumeRequest__SecretsEntry secret = {
	PROTOBUF_C_MESSAGE_INIT(&csi__v1__node_stage_volume_request__secrets_entry__descriptor),
	(char *)"secret-key", (char *)"secret-value"
};
static Csi__V1__NodeStageVolumeRequest__SecretsEntry *secrets[] = { &secret };

static Csi__V1__NodeStageVolumeRequest stage_request(void)
{
	static Csi__V1__VolumeCapability__MountVolume mount =
		CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	static Csi__V1__VolumeCapability__AccessMode mode =
		CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__INIT;
	static Csi__V1__VolumeCapability capability = CSI__V1__VOLUME_CAPABILITY__INIT;
	static char *flags[] = { (char *)"flag-value" };
	Csi__V1__NodeStageVolumeRequest r = CSI__V1__NODE_STAGE_VOLUME_REQUEST__INIT;

	mount.fs_type = (char *)"ext4";
	mount.mount_flags = flags;
	mount.n_mount_flags = 1;
	mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	capability.mount = &mount;
	capability.access_mode = &mode;
	r.volume_id = (char *)"pvc-1";
	r.staging_target_path = (char *)"/var/lib/kubelet/x y";
	r.volume_capability = &capability;
	r.volume_context = contexts;
	r.n_volume_context = 2;
	r.secrets = secrets;
	r.n_secrets = 1;
	return r;
}

START_TEST(names_and_paths_are_on_every_line)
{
	Csi__V1__NodeStageVolumeRequest r = stage_request();
	int64_t begin = monotonic_ns();
	const char *line = logged(2, false, &r.base, &loud, NULL);
	const char *ms = strstr(line, " NodeStageVolume code=OK ms=");

	ck_assert_msg(ms != NULL, "%s", line);
	ck_assert_double_le(strtod(strstr(ms, "ms=") + 3, NULL),
	                    (double)(monotonic_ns() - begin) / 1e6 + 0.1);
	ck_assert_msg(strstr(line, " volume=pvc-1 staging=\"/var/lib/kubelet/x y\" pid=42 call=") !=
	                      NULL,
	              "%s", line);
}
END_TEST

START_TEST(fields_come_with_verbosity_4)
{
	Csi__V1__NodeStageVolumeRequest r = stage_request();
	const char *line = logged(4, false, &r.base, &loud, NULL);

	ck_assert_msg(strstr(line,
	                     "volume_capability.mount.fs_type=ext4 "
	                     "volume_capability.access_mode.mode=SINGLE_NODE_WRITER "
	                     "volume_context=csi.storage.k8s.io/serviceAccount.tokens,policy") !=
	                      NULL,
	              "%s", line);
}
END_TEST

START_TEST(values_of_maps_and_secrets_are_never_there)
{
	Csi__V1__NodeStageVolumeRequest r = stage_request();
	struct err err = ERR_INIT;

	err_set(&err, ERR_INTERNAL, "it failed");
	for (int verbosity = 0; verbosity <= 10; verbosity++) {
		const char *line = logged(verbosity, verbosity % 2, &r.base, &loud, &err);

		ck_assert_ptr_nonnull(strstr(line, "pvc-1"));
		ck_assert_msg(!strstr(line, "-value") && !strstr(line, "secret"), "%s", line);
	}
}
END_TEST

START_TEST(numbers_flags_and_lists_are_told_apart)
{
	static Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	Csi__V1__VolumeCapability cap = CSI__V1__VOLUME_CAPABILITY__INIT, *caps[] = { &cap, &cap };
	Csi__V1__CapacityRange range = CSI__V1__CAPACITY_RANGE__INIT;
	Csi__V1__CreateVolumeRequest r = CSI__V1__CREATE_VOLUME_REQUEST__INIT;
	const char *line;

	cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	cap.block = &block;
	range.required_bytes = INT64_C(9007199254740993);
	r.name = (char *)"pvc-9";
	r.capacity_range = &range;
	r.volume_capabilities = caps;
	r.n_volume_capabilities = 2;
	line = logged(4, false, &r.base, &loud, NULL);
	ck_assert_msg(strstr(line,
	                     "name=pvc-9 capacity_range.required_bytes=9007199254740993 "
	                     "volume_capabilities[0].block=set volume_capabilities[1].block=set") !=
	                      NULL,
	              "%s", line);
}
END_TEST

START_TEST(an_enum_number_without_a_name_is_a_number)
{
	Csi__V1__VolumeCapability__AccessMode mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__INIT;
	Csi__V1__VolumeCapability cap = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__ControllerPublishVolumeRequest r =
		CSI__V1__CONTROLLER_PUBLISH_VOLUME_REQUEST__INIT;
	const char *line;

	mode.mode = (Csi__V1__VolumeCapability__AccessMode__Mode)99;
	cap.access_mode = &mode;
	r.volume_capability = &cap;
	r.node_id = (char *)"n1";
	r.readonly = true;
	line = logged(4, false, &r.base, &loud, NULL);
	ck_assert_msg(strstr(line, "node=n1 volume_capability.access_mode.mode=99 readonly=true") !=
	                      NULL,
	              "%s", line);
}
END_TEST

START_TEST(success_is_silent_below_its_verbosity)
{
	struct err err = ERR_INIT;

	ck_assert_str_eq(logged(1, false, NULL, &loud, NULL), "");
	ck_assert_str_ne(logged(2, false, NULL, &loud, NULL), "");
	ck_assert_str_eq(logged(4, false, NULL, &quiet, NULL), "");
	ck_assert_str_ne(logged(5, false, NULL, &quiet, NULL), "");
	err_set(&err, ERR_NOT_FOUND, "no volume pvc-1");
	ck_assert_str_ne(logged(0, false, NULL, &quiet, &err), "");
}
END_TEST

START_TEST(a_failure_has_code_text_and_level)
{
	struct err err = ERR_INIT;
	const char *line;

	err_set(&err, ERR_NOT_FOUND, "no volume \"pvc-1\"");
	line = logged(0, false, NULL, &loud, &err);
	ck_assert_int_eq(line[0], 'W');
	ck_assert_msg(strstr(line, "code=NOT_FOUND") &&
	                      strstr(line, "error=\"no volume \\\"pvc-1\\\"\""),
	              "%s", line);
	err_clear(&err);
	err_set(&err, ERR_INTERNAL, "x");
	ck_assert_int_eq(logged(0, false, NULL, &loud, &err)[0], 'E');
	line = logged(0, true, NULL, &loud, &err);
	ck_assert_msg(strstr(line, "\"msg\":\"NodeStageVolume\",\"code\":\"INTERNAL\"") != NULL,
	              "%s", line);
}
END_TEST

START_TEST(numbers_of_a_json_line_are_numbers)
{
	Csi__V1__CapacityRange range = CSI__V1__CAPACITY_RANGE__INIT;
	Csi__V1__CreateVolumeRequest r = CSI__V1__CREATE_VOLUME_REQUEST__INIT;
	static const char *const numbers[] = { "ms", "pid", "call",
		                               "capacity_range.required_bytes" };
	struct json *j AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	const char *line;

	range.required_bytes = 1024;
	r.name = (char *)"17";
	r.capacity_range = &range;
	line = logged(4, true, &r.base, &loud, NULL);
	ck_assert_msg(json_parse("line", line, strlen(line), &j, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(json_str(j, "name"), "17");
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		char unquoted[64];

		snprintf(unquoted, sizeof(unquoted), "\"%s\":", numbers[i]);
		ck_assert_msg(strstr(line, unquoted) &&
		                      strstr(line, unquoted)[strlen(unquoted)] != '"',
		              "%s: %s", numbers[i], line);
	}
}
END_TEST

START_TEST(a_method_that_nobody_has_is_named_as_it_came)
{
	struct err err = ERR_INIT;
	const char *line;

	err_set(&err, ERR_UNIMPLEMENTED, "x");
	line = logged(0, false, NULL, NULL, &err);
	ck_assert_msg(
		strstr(line,
	               "unknown method method=/csi.v1.Node/NodeStageVolume code=UNIMPLEMENTED") !=
			NULL,
		"%s", line);
}
END_TEST

START_TEST(more_fields_than_a_line_has_are_cut)
{
	Csi__V1__VolumeCapability cap = CSI__V1__VOLUME_CAPABILITY__INIT, *caps[500];
	Csi__V1__CreateVolumeRequest r = CSI__V1__CREATE_VOLUME_REQUEST__INIT;

	for (size_t i = 0; i < ARRAY_LEN(caps); i++)
		caps[i] = &cap;
	r.name = (char *)"pvc-9";
	r.volume_capabilities = caps;
	r.n_volume_capabilities = ARRAY_LEN(caps);
	ck_assert_ptr_nonnull(strstr(logged(4, false, &r.base, &loud, NULL), "name=pvc-9"));
	ck_assert_ptr_nonnull(strstr(last, "pid=42"));
}
END_TEST

SUITE("rpc_log", names_and_paths_are_on_every_line, fields_come_with_verbosity_4,
      values_of_maps_and_secrets_are_never_there, numbers_flags_and_lists_are_told_apart,
      an_enum_number_without_a_name_is_a_number, success_is_silent_below_its_verbosity,
      a_failure_has_code_text_and_level, numbers_of_a_json_line_are_numbers,
      a_method_that_nobody_has_is_named_as_it_came, more_fields_than_a_line_has_are_cut);
