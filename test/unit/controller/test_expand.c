/* SPDX-License-Identifier: Apache-2.0 */
/* ControllerExpandVolume: the requested size, the awaited state, and each refusal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/controller_door.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define V "dpuvolumes"
#define GI(n) "\"" #n "Gi\""
#define SIZE(gi) "{\"spec\":{\"resources\":{\"requests\":{\"storage\":" gi "}}}}"
#define GROWN(gi) "{\"status\":{\"state\":{\"volumeInfo\":{\"capacity\":{\"storage\":" gi "}}}}}"
#define RANGE(required, limit) \
	"\"capacity_range\":{\"required_bytes\":" #required ",\"limit_bytes\":" #limit "}"
#define OF(required, limit) "{\"volume_id\":\"v\"," RANGE(required, limit) "}"
#define WITH(required, limit, type)                                                               \
	"{\"volume_id\":\"v\"," RANGE(required, limit) ",\"volume_capability\":{\"access_mode\":" \
						       "{\"mode\":1},\"" type "\":{}}}"

static struct controller c = { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };
static struct keylock *locks;

static void world(void)
{
	fake_reset();
	locks = keylock_new();
	c.expands = 0;
	fake.schema = "{\"properties\":{\"spec\":{\"properties\":{\"resources\":{\"properties\":{"
		      "\"requests\":{\"additionalProperties\":{\"type\":\"string\"}}}}}}}}";
	fake_put(V, "{\"metadata\":{\"name\":\"v\",\"resourceVersion\":\"7\",\"annotations\":{"
	            "\"csi.snap.nvidia.com/name\":\"v\"}},\"spec\":{\"resources\":{\"requests\":{"
	            "\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"},\"status\":{\"phase\":"
	            "\"Bound\",\"state\":{\"volumeInfo\":{\"capacity\":{\"storage\":\"1Gi\"}}}}}");
}

static void world_end(void)
{
	ck_assert_int_eq(fake.waits_open, 0);
	locks = keylock_free(locks);
	fake_reset();
}

static int expand(const char *request, struct json **ret, struct err *err)
{
	struct json *q AUTO(json_free) = fake_json(request);

	return door_call(&c, locks, "ControllerExpandVolume", q, ret, err);
}

static const char *text_at(const char *path)
{
	const char *text = json_str(fake_find(V, "v")->tree, path);

	return text ? text : "";
}

static const struct {
	const char *what;
	const char *before; /* a patch of the volume, or NULL */
	const char *request;
	const char *then; /* DPF's change during the wait, or NULL */
	int patches;
	const char *asked, *limit; /* spec.resources afterwards */
	const char *reply;
} grown[] = {
	{ "it grows", NULL, OF(2147483648, 0), GROWN(GI(2)), 1, "2Gi", "",
	  "{\"capacity_bytes\":2147483648,\"node_expansion_required\":true}" },
	{ "the storage rounds up", NULL, OF(2147483648, 3221225472), GROWN(GI(3)), 1, "2Gi", "",
	  "{\"capacity_bytes\":3221225472,\"node_expansion_required\":true}" },
	{ "it is large enough", NULL, OF(1073741824, 0), NULL, 0, "1Gi", "",
	  "{\"capacity_bytes\":1073741824,\"node_expansion_required\":true}" },
	{ "it is larger", NULL, OF(1000000, 0), NULL, 0, "1Gi", "",
	  "{\"capacity_bytes\":1073741824,\"node_expansion_required\":true}" },
	{ "only a limit is given", NULL, OF(0, 1073741824), NULL, 0, "1Gi", "",
	  "{\"capacity_bytes\":1073741824,\"node_expansion_required\":true}" },
	{ "it was asked for before", SIZE(GI(2)), OF(2147483648, 0), GROWN(GI(2)), 0, "2Gi", "",
	  "{\"capacity_bytes\":2147483648,\"node_expansion_required\":true}" },
	{ "more was asked for before", SIZE(GI(3)), OF(2147483648, 0), GROWN(GI(3)), 0, "3Gi", "",
	  "{\"capacity_bytes\":3221225472,\"node_expansion_required\":true}" },
	{ "a limit of before is in the way",
	  "{\"spec\":{\"resources\":{\"limits\":{\"storage\":\"1Gi\"}}}}", OF(2147483648, 0),
	  GROWN(GI(2)), 1, "2Gi", "2Gi",
	  "{\"capacity_bytes\":2147483648,\"node_expansion_required\":true}" },
	{ "a new limit takes its place",
	  "{\"spec\":{\"resources\":{\"limits\":{\"storage\":\"1Gi\"}}}}",
	  OF(2147483648, 3221225472), GROWN(GI(2)), 1, "2Gi", "3Gi",
	  "{\"capacity_bytes\":2147483648,\"node_expansion_required\":true}" },
	{ "a limit of before that is wide enough stays",
	  "{\"spec\":{\"resources\":{\"limits\":{\"storage\":\"5Gi\"}}}}", OF(2147483648, 0),
	  GROWN(GI(2)), 1, "2Gi", "5Gi",
	  "{\"capacity_bytes\":2147483648,\"node_expansion_required\":true}" },
	{ "raw block, as the request says", NULL, WITH(2147483648, 0, "block"), GROWN(GI(2)), 1,
	  "2Gi", "", "{\"capacity_bytes\":2147483648}" },
	{ "raw block, as the volume says",
	  "{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/accessType\":\"block\"}}}",
	  OF(2147483648, 0), GROWN(GI(2)), 1, "2Gi", "", "{\"capacity_bytes\":2147483648}" },
	{ "virtio-fs", "{\"spec\":{\"volumeMode\":\"Filesystem\"}}", WITH(2147483648, 0, "mount"),
	  GROWN(GI(2)), 1, "2Gi", "", "{\"capacity_bytes\":2147483648}" },
};

START_TEST(a_volume_is_asked_to_grow_and_waited_for)
{
	struct json *reply AUTO(json_free) = NULL, *want AUTO(json_free) = NULL;
	const char *what = grown[_i].what;
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	world();
	if (grown[_i].before)
		fake_change_text(V, "v", grown[_i].before);
	if (grown[_i].then) {
		fake_then(V, "v", "{\"status\":{\"phase\":\"Bound\"}}");
		fake_then(V, "v", grown[_i].then);
	}
	ck_assert_msg(expand(grown[_i].request, &reply, &err) == 0, "%s: %s", what, err.msg);
	want = fake_json(grown[_i].reply);
	text = json_print(reply);
	ck_assert_msg(json_equal(reply, want), "%s: %s", what, text);
	ROW_STR_EQ(what, text_at("spec.resources.requests.storage"), grown[_i].asked);
	ROW_STR_EQ(what, text_at("spec.resources.limits.storage"), grown[_i].limit);
	ck_assert_msg(fake.patches == grown[_i].patches, "%s: %d PATCHes", what, fake.patches);
	world_end();
}
END_TEST

#define FAILED(why)                                                                         \
	"{\"status\":{\"conditions\":[{\"type\":\"Bound\",\"status\":\"False\",\"reason\":" \
	"\"Failure\",\"message\":\"" why "\"}]}}"

static const struct {
	const char *what;
	const char *before, *request, *then;
	enum err_code code;
	const char *text;
	int patches;
} refused[] = {
	{ "no volume", NULL, "{" RANGE(1, 0) "}", NULL, ERR_INVALID, "VolumeId: field is required",
	  0 },
	{ "no range", NULL, "{\"volume_id\":\"v\"}", NULL, ERR_INVALID,
	  "CapacityRange: field is required", 0 },
	{ "an empty range", NULL, OF(0, 0), NULL, ERR_INVALID,
	  "CapacityRange: neither required_bytes nor limit_bytes is given", 0 },
	{ "a negative size", NULL, OF(-1, 0), NULL, ERR_INVALID,
	  "CapacityRange: required_bytes is negative", 0 },
	{ "more than allowed", NULL, OF(2147483648, 1073741824), NULL, ERR_RANGE,
	  "CapacityRange: required_bytes 2.0 GiB (2147483648 bytes) is more than limit_bytes 1.0 GiB "
	  "(1073741824 bytes)",
	  0 },
	{ "no such volume", NULL, "{\"volume_id\":\"w\"," RANGE(1, 0) "}", NULL, ERR_NOT_FOUND,
	  "volume not found: there is no DPUVolume dpf/w", 0 },
	{ "a name that no volume has", NULL, "{\"volume_id\":\"a/b\"," RANGE(1, 0) "}", NULL,
	  ERR_NOT_FOUND, "volume not found: there is no DPUVolume dpf/a/b", 0 },
	{ "it is larger than allowed", NULL, OF(0, 1000), NULL, ERR_RANGE,
	  "CapacityRange: volume v: has 1.0 GiB (1073741824 bytes), more than limit_bytes 1000 bytes",
	  0 },
	{ "it is to become larger than allowed", SIZE(GI(3)), OF(1073741824, 2147483648), NULL,
	  ERR_RANGE,
	  "CapacityRange: volume v: is to get 3.0 GiB (3221225472 bytes), more than limit_bytes 2.0 "
	  "GiB (2147483648 bytes)",
	  0 },
	{ "the storage makes it too large", NULL, OF(2147483648, 2147483648), GROWN(GI(3)),
	  ERR_RANGE,
	  "CapacityRange: volume v: has 3.0 GiB (3221225472 bytes), more than limit_bytes 2.0 GiB "
	  "(2147483648 bytes)",
	  1 },
	{ "it is being deleted", "{\"metadata\":{\"deletionTimestamp\":\"x\"}}", OF(2147483648, 0),
	  NULL, ERR_ABORTED, "volume v is being deleted", 0 },
	{ "it is made for raw block",
	  "{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/accessType\":\"block\"}}}",
	  WITH(2147483648, 0, "mount"), NULL, ERR_INVALID,
	  "VolumeCapability.AccessType: volume v was created for access type block, not mount", 0 },
	{ "raw block of a share", "{\"spec\":{\"volumeMode\":\"Filesystem\"}}",
	  WITH(2147483648, 0, "block"), NULL, ERR_UNIMPLEMENTED, NULL, 0 },
	{ "it comes without the version that a PATCH has to name",
	  "{\"metadata\":{\"resourceVersion\":null}}", OF(2147483648, 0), NULL, ERR_UNAVAILABLE,
	  "DPUVolume dpf/v: metadata.resourceVersion is missing", 0 },
	/* Requested: from here on the volume may grow, whatever the answer is. */
	{ "it does not come", NULL, OF(2147483648, 0), NULL, ERR_DEADLINE,
	  "timeout occurred while waiting for volume expansion: DPUVolume dpf/v has 1.0 GiB "
	  "(1073741824 bytes), expected 2.0 GiB (2147483648 bytes) "
	  "(status.state.volumeInfo.capacity.storage): no conditions yet",
	  1 },
	{ "the storage fails", NULL, OF(2147483648, 0), FAILED("broken"), ERR_UNAVAILABLE,
	  "DPUVolume dpf/v failed: Bound=False (Failure: broken)", 1 },
	{ "the storage is full", NULL, OF(2147483648, 0), FAILED("vendor full"), ERR_UNAVAILABLE,
	  "DPUVolume dpf/v failed: Bound=False (Failure: vendor full)", 1 },
	{ "it is deleted meanwhile", NULL, OF(2147483648, 0),
	  "{\"metadata\":{\"deletionTimestamp\":\"x\"}}", ERR_ABORTED,
	  "DPUVolume dpf/v is being deleted", 1 },
};

START_TEST(what_cannot_grow_is_refused_and_says_why)
{
	const char *what = refused[_i].what;
	struct err err = ERR_INIT;

	world();
	if (refused[_i].before)
		fake_change_text(V, "v", refused[_i].before);
	if (refused[_i].then)
		fake_then(V, "v", refused[_i].then);
	ck_assert_msg(expand(refused[_i].request, NULL, &err) == -1, "%s: it is not", what);
	ck_assert_msg(err.code == refused[_i].code, "%s: %s %s", what, err_code_name(err.code),
	              err.msg);
	if (refused[_i].text)
		ROW_STR_EQ(what, err.msg, refused[_i].text);
	ck_assert_msg(fake.patches == refused[_i].patches, "%s: %d PATCHes", what, fake.patches);
	world_end();
}
END_TEST

static const struct {
	const char *what, *verb;
	enum err_code given, code;
	bool in_doubt; /* an earlier PATCH had no answer */
} faults[] = {
	{ "no right to read", "get", ERR_PERMISSION, ERR_PERMISSION, false },
	{ "no right to patch: nothing was asked for", "patch", ERR_PERMISSION, ERR_PERMISSION,
	  false },
	{ "the API server finds it invalid", "patch", ERR_INVALID, ERR_INVALID, false },
	{ "no answer to the PATCH", "patch", ERR_UNAVAILABLE, ERR_UNAVAILABLE, false },
	{ "somebody writes it all the time", "patch", ERR_ABORTED, ERR_ABORTED, false },
	{ "no right to watch, and it was asked for", "watch", ERR_PERMISSION, ERR_UNAVAILABLE,
	  false },
	{ "invalid, while an earlier PATCH may come", "patch", ERR_INVALID, ERR_UNAVAILABLE, true },
	{ "not allowed, while one may come", "patch", ERR_PERMISSION, ERR_UNAVAILABLE, true },
	{ "not read, while one may come", "get", ERR_PERMISSION, ERR_UNAVAILABLE, true },
	{ "a conflict, while one may come", "patch", ERR_ABORTED, ERR_ABORTED, true },
};

START_TEST(a_final_code_says_that_nothing_was_asked_for)
{
	struct err err = ERR_INIT;

	world();
	fake_refuse(faults[_i].verb, V, faults[_i].given, "no");
	fake.may_change = faults[_i].in_doubt;
	ck_assert_int_eq(expand(OF(2147483648, 0), NULL, &err), -1);
	ck_assert_msg(err.code == faults[_i].code, "%s: %s %s", faults[_i].what,
	              err_code_name(err.code), err.msg);
	ck_assert_msg(strstr(err.msg, "DPUVolume dpf/v"), "%s: %s", faults[_i].what, err.msg);
	world_end();
}
END_TEST

static const struct {
	const char *what;
	const char *before_patch; /* another client's write */
	bool lost;
	int patches;
	const char *asked;
} races[] = {
	{ "DPF writes the status", "{\"status\":{\"phase\":\"Bound\"}}", false, 2, "2Gi" },
	{ "somebody asks for more", SIZE(GI(3)), false, 1, "3Gi" },
	{ "somebody asks for the same", SIZE(GI(2)), false, 1, "2Gi" },
	{ "the answer was lost", NULL, true, 1, "2Gi" },
};

START_TEST(nobody_is_overwritten_and_a_lost_answer_is_asked_for_again)
{
	struct err err = ERR_INIT;

	world();
	fake.before_patch = races[_i].before_patch;
	fake.lost_patch = races[_i].lost;
	fake_then(V, "v", GROWN(GI(3)));
	ck_assert_msg(expand(OF(2147483648, 0), NULL, &err) == 0, "%s: %s", races[_i].what,
	              err.msg);
	ROW_STR_EQ(races[_i].what, text_at("spec.resources.requests.storage"), races[_i].asked);
	ck_assert_msg(fake.patches == races[_i].patches, "%s: %d PATCHes", races[_i].what,
	              fake.patches);
	world_end();
}
END_TEST

START_TEST(what_may_still_be_made_is_not_said_to_be_absent)
{
	struct err err = ERR_INIT;

	world();
	fake.may_come = true;
	ck_assert_int_eq(expand("{\"volume_id\":\"w\"," RANGE(1, 0) "}", NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	world_end();
}
END_TEST

static const struct {
	const char *what, *schema;
	enum err_code code;
	const char *text;
} worlds[] = {
	{ "the CRD forbids it", "{\"x-kubernetes-validations\":[{\"rule\":\"self == oldSelf\"}]}",
	  ERR_UNIMPLEMENTED,
	  "volumes cannot be expanded: DPF's CRD does not let spec.resources of a DPUVolume change" },
	{ "the schema cannot be read", NULL, ERR_UNAVAILABLE, "/openapi/v3 is forbidden" },
};

START_TEST(what_is_not_offered_is_not_done)
{
	struct err err = ERR_INIT;

	world();
	fake.schema = worlds[_i].schema;
	ck_assert_int_eq(expand(OF(2147483648, 0), NULL, &err), -1);
	ck_assert_int_eq(err.code, worlds[_i].code);
	ROW_STR_EQ(worlds[_i].what, err.msg, worlds[_i].text);
	ck_assert_int_eq(fake.patches, 0);
	world_end();
}
END_TEST

SUITE("expand", LOOP(a_volume_is_asked_to_grow_and_waited_for, ARRAY_LEN(grown)),
      LOOP(what_cannot_grow_is_refused_and_says_why, ARRAY_LEN(refused)),
      LOOP(a_final_code_says_that_nothing_was_asked_for, ARRAY_LEN(faults)),
      LOOP(nobody_is_overwritten_and_a_lost_answer_is_asked_for_again, ARRAY_LEN(races)),
      what_may_still_be_made_is_not_said_to_be_absent,
      LOOP(what_is_not_offered_is_not_done, ARRAY_LEN(worlds)));
