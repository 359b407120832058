/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the API, their refusals, and the error texts. */
#include <string.h>

#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/api/api.h"
#include "test/sim/kinds/object.h"
#include "test/sim/test/harness.h"

#define TYPE_META "\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolume\""
#define SPEC                                                                            \
	"\"spec\":{\"dpuStoragePolicyName\":\"p\",\"accessModes\":[\"ReadWriteOnce\"]," \
	"\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}"

static void create(struct sim_world *w, const char *name, const char *extra)
{
	char *body AUTO(free) =
		xasprintf("{" TYPE_META ",\"metadata\":{\"name\":\"%s\"%s}," SPEC "}", name, extra);

	world_ok(w, "POST", VOLUMES, body, 201);
}

START_TEST(a_new_object_gets_what_the_server_gives)
{
	PLAIN(w);
	struct api_answer a AUTO(answer_clear) =
		world_call(&w, "POST", VOLUMES,
	                   "{" TYPE_META ",\"metadata\":{\"name\":\"v\"}," SPEC
	                   ",\"status\":{\"phase\":\"Bound\"},\"junk\":1}");

	ck_assert_uint_eq(a.code, 201);
	ck_assert_uint_eq(strlen(object_uid(a.json)), 36);
	ck_assert_int_eq(object_generation(a.json), 1);
	ck_assert_str_eq(object_namespace(a.json), NS);
	ck_assert_ptr_nonnull(json_str(a.json, "metadata.resourceVersion"));
	ck_assert_uint_eq(strlen(json_str(a.json, "metadata.creationTimestamp")), 20);
	ck_assert_str_eq(json_str(a.json, "spec.volumeMode"), "Filesystem");
	ck_assert_uint_eq(json_count(json_at(a.json, "spec.parameters")), 0);
	ck_assert_ptr_null(json_at(a.json, "status"));
	ck_assert_ptr_null(json_at(a.json, "junk"));
	world_ok(&w, "GET", VOLUMES "/v", NULL, 200);
}
END_TEST

/*
 * Objects that the validation refuses are in cases.json, which is also run against a real API
 * server.
 */
static const struct {
	const char *what, *kind, *body;
	unsigned code;
	const char *text;
} creations[] = {
	{ "no JSON", "dpuvolumes", "{", 400, "BadRequest" },
	{ "no object", "dpuvolumes", "[]", 400, "no JSON object" },
	{ "no type", "dpuvolumes", "{\"metadata\":{\"name\":\"v\"}}", 400,
	  "Object 'Kind' is missing" },
};

START_TEST(wrong_objects_are_refused_with_the_servers_words)
{
	PLAIN(w);

	for (size_t i = 0; i < ARRAY_LEN(creations); i++) {
		char *path AUTO(free) = xasprintf(STORAGE_API "/%s", creations[i].kind);
		struct api_answer a AUTO(answer_clear) =
			world_call(&w, "POST", path, creations[i].body);

		ck_assert_msg(a.code == creations[i].code, "%s: %u %s", creations[i].what, a.code,
		              a.text);
		ck_assert_msg(strstr(a.text, creations[i].text), "%s: %s", creations[i].what,
		              a.text);
		ck_assert_str_eq(json_str(a.json, "kind"), "Status");
		ck_assert_str_eq(json_str(a.json, "status"), "Failure");
	}
}
END_TEST

START_TEST(attachments_are_validated)
{
	static const struct {
		const char *function;
		bool hotplug;
		unsigned code;
	} rows[] = {
		{ "vf", false, 201 }, { "pf", true, 201 },  { "pf", false, 201 },
		{ "vf", true, 422 },  { "VF", false, 422 }, { "", false, 422 },
	};
	PLAIN(w);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *name AUTO(free) = xasprintf("a%zu", i);
		char *body AUTO(free) =
			attachment_json_text(name, "n", "v", rows[i].function, rows[i].hotplug);

		world_ok(&w, "POST", ATTACHMENTS, body, rows[i].code);
	}
}
END_TEST

START_TEST(names_that_exist_or_do_not_are_told_in_details)
{
	PLAIN(w);
	char *body AUTO(free) = volume_json_text("v", "p");
	struct api_answer again AUTO(answer_clear) = { 0 };
	struct api_answer missing AUTO(answer_clear) = { 0 };
	struct api_answer space AUTO(answer_clear) = { 0 };

	create(&w, "v", "");
	again = world_call(&w, "POST", VOLUMES, body);
	missing = world_call(&w, "GET", VOLUMES "/x", NULL);
	space = world_call(&w, "POST",
	                   "/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/nowhere/dpuvolumes",
	                   body);
	ck_assert_uint_eq(again.code, 409);
	ck_assert_str_eq(json_str(again.json, "reason"), "AlreadyExists");
	ck_assert_str_eq(json_str(again.json, "message"),
	                 "dpuvolumes.storage.dpu.nvidia.com \"v\" already exists");
	ck_assert_uint_eq(missing.code, 404);
	ck_assert_str_eq(json_str(missing.json, "reason"), "NotFound");
	ck_assert_str_eq(json_str(missing.json, "details.name"), "x");
	ck_assert_str_eq(json_str(missing.json, "details.kind"), "dpuvolumes");
	ck_assert_str_eq(json_str(missing.json, "details.group"), "storage.dpu.nvidia.com");
	ck_assert_uint_eq(space.code, 404);
	ck_assert_str_eq(json_str(space.json, "message"), "namespaces \"nowhere\" not found");
}
END_TEST

START_TEST(paths_lead_where_they_should)
{
	static const struct {
		const char *method, *path;
		unsigned code;
		const char *text;
	} rows[] = {
		{ "GET", "/version", 200, "gitVersion" },
		{ "GET", "/healthz", 200, "ok" },
		{ "GET", "/api", 200, "APIVersions" },
		{ "GET", "/api/v1", 200, "\"nodes/status\"" },
		{ "GET", "/apis", 200, "provisioning.dpu.nvidia.com" },
		{ "GET", "/apis/storage.dpu.nvidia.com", 200, "preferredVersion" },
		{ "GET", "/apis/storage.dpu.nvidia.com/v1alpha1", 200, "dpuvolumeattachments" },
		{ "GET", "/apis/other.group/v1/things", 404, "404 page not found\n" },
		{ "GET", "/apis/storage.dpu.nvidia.com/v1/dpuvolumes", 404,
		  "404 page not found\n" },
		{ "GET", STORAGE_API "/dpuvolumes/a/b", 404, "404 page not found\n" },
		{ "GET", STORAGE_API "/dpuvolumes/a/status/x", 404, "404 page not found\n" },
		{ "GET", "/apis/storage.dpu.nvidia.com/v1alpha1/dpuvolumes/a", 404, "404 page" },
		{ "GET", "/api/v1/things", 404,
		  "the server could not find the requested resource" },
		{ "GET", "/", 404, "404 page not found\n" },
		{ "GET", "/apis/storage.dpu.nvidia.com/v1alpha1/dpuvolumes", 200, "DPUVolumeList" },
		{ "GET", "/api/v1/namespaces/" NS, 200, "Namespace" },
		{ "GET", "/api/v1/nodes", 200, "NodeList" },
		{ "DELETE", STORAGE_API "/dpuvolumes", 405, "MethodNotAllowed" },
		{ "POST", STORAGE_API "/dpuvolumes/x", 405, "MethodNotAllowed" },
		{ "GET", "/sim/nothing", 404, "POST /sim/faults" },
	};
	PLAIN(w);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct api_answer a AUTO(answer_clear) =
			world_call(&w, rows[i].method, rows[i].path, NULL);

		ck_assert_msg(a.code == rows[i].code, "%s: %u", rows[i].path, a.code);
		ck_assert_msg(strstr(a.text, rows[i].text), "%s: %s", rows[i].path, a.text);
	}
}
END_TEST

START_TEST(objects_are_the_same_in_each_served_version)
{
	WORLD(w, "--no-fabric", "--no-dpf", "--storage-version", "v1beta1", "--storage-version",
	      "v1alpha1", "--storage-version", "v2-accessModes");
	struct api_answer groups AUTO(answer_clear) = world_call(&w, "GET", "/apis", NULL);
	struct api_answer wrong AUTO(answer_clear) = { 0 }, beta AUTO(answer_clear) = { 0 };
	struct api_answer list AUTO(answer_clear) = { 0 }, v2 AUTO(answer_clear) = { 0 };
	struct api_answer both AUTO(answer_clear) = { 0 };

	ck_assert_ptr_nonnull(strstr(groups.text, "storage.dpu.nvidia.com/v1beta1"));
	create(&w, "a", "");
	wrong = world_call(&w, "POST", BETA_API "/dpuvolumes",
	                   "{" TYPE_META ",\"metadata\":{\"name\":\"b\"}," SPEC "}");
	ck_assert_uint_eq(wrong.code, 400);
	beta = world_call(&w, "GET", BETA_API "/dpuvolumes/a", NULL);
	ck_assert_str_eq(json_str(beta.json, "apiVersion"), "storage.dpu.nvidia.com/v1beta1");
	list = world_call(&w, "GET", BETA_API "/dpuvolumes", NULL);
	ck_assert_ptr_null(strstr(list.text, "v1alpha1"));
	v2 = world_call(&w, "GET", "/openapi/v3/apis/storage.dpu.nvidia.com/v2", NULL);
	ck_assert_ptr_null(strstr(v2.text, "\"accessModes\":"));
	both = world_call(&w, "GET", "/openapi/v3/apis/storage.dpu.nvidia.com/v1beta1", NULL);
	ck_assert_ptr_nonnull(strstr(both.text, "\"accessModes\":"));
	world_ok(&w, "POST", "/sim/versions", "{\"versions\":[\"x\"]}", 400);
	world_ok(&w, "POST", "/sim/versions", "{\"versions\":[\"v1beta1\"]}", 200);
	world_ok(&w, "GET", VOLUMES "/a", NULL, 404);
	world_ok(&w, "GET", BETA_API "/dpuvolumes/a", NULL, 200);
}
END_TEST

START_TEST(pages_hold_every_object_once)
{
	PLAIN(w);
	struct str seen AUTO(str_clear) = STR_INIT(1000);
	char *path AUTO(free) = xstrdup(VOLUMES "?limit=2");
	char *stale AUTO(free) = NULL, *on AUTO(free) = NULL;
	struct api_answer expired AUTO(answer_clear) = { 0 }, rest AUTO(answer_clear) = { 0 };
	char name[] = "v0";
	struct api_answer first AUTO(answer_clear) = { 0 };

	for (; name[1] < '5'; name[1]++)
		create(&w, name, "");
	while (path) {
		struct api_answer a AUTO(answer_clear) = world_call(&w, "GET", path, NULL);
		const char *token = json_str(a.json, "metadata.continue");

		ck_assert_uint_eq(a.code, 200);
		json_foreach (item, json_at(a.json, "items"))
			str_addf(&seen, "%s ", object_name(item));
		free(path);
		path = !str_empty(token) ? xasprintf(VOLUMES "?limit=2&continue=%s", token) : NULL;
	}
	ck_assert_str_eq(seen.ptr, "v0 v1 v2 v3 v4 ");
	world_ok(&w, "GET", VOLUMES "?limit=x", NULL, 400);
	world_ok(&w, "GET", VOLUMES "?continue=nonsense", NULL, 400);
	first = world_call(&w, "GET", VOLUMES "?limit=1", NULL);
	stale = xasprintf(VOLUMES "?continue=%s", json_str(first.json, "metadata.continue"));
	create(&w, "late", "");
	world_ok(&w, "POST", "/sim/expire", NULL, 200);
	/* The rest is available by another token, in its current state. */
	expired = world_call(&w, "GET", stale, NULL);
	ck_assert_uint_eq(expired.code, 410);
	ck_assert_str_eq(json_str(expired.json, "reason"), "Expired");
	on = xasprintf(VOLUMES "?continue=%s", json_str(expired.json, "metadata.continue"));
	rest = world_call(&w, "GET", on, NULL);
	ck_assert_uint_eq(rest.code, 200);
	ck_assert_uint_eq(json_count(json_at(rest.json, "items")), 4);
	ck_assert_str_ne(json_str(rest.json, "metadata.resourceVersion"),
	                 json_str(first.json, "metadata.resourceVersion"));
}
END_TEST

START_TEST(lists_are_selected)
{
	static const struct {
		const char *query, *names;
	} rows[] = {
		{ "labelSelector=app=x", "a b " },
		{ "labelSelector=app=x,tier=1", "b " },
		{ "labelSelector=app!=x", "c " },
		{ "labelSelector=app", "a b " },
		{ "labelSelector=!app", "c " },
		{ "labelSelector=app,!tier", "a " },
		{ "labelSelector=app notin (y),tier in (1,2)", "b " },
		{ "fieldSelector=metadata.name=c", "c " },
	};
	PLAIN(w);

	create(&w, "a", ",\"labels\":{\"app\":\"x\"}");
	create(&w, "b", ",\"labels\":{\"app\":\"x\",\"tier\":\"1\"}");
	create(&w, "c", "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path AUTO(free) = xasprintf(VOLUMES "?%s", rows[i].query);
		struct api_answer a AUTO(answer_clear) = world_call(&w, "GET", path, NULL);
		struct str seen AUTO(str_clear) = STR_INIT(1000);

		json_foreach (item, json_at(a.json, "items"))
			str_addf(&seen, "%s ", object_name(item));
		ROW_STR_EQ(rows[i].query, seen.ptr, rows[i].names);
	}
	world_ok(&w, "GET", VOLUMES "?labelSelector=a in b", NULL, 400);
}
END_TEST

static struct api_answer patch(struct sim_world *w, const char *path, const char *body)
{
	return world_call(w, "PATCH", path, body);
}

START_TEST(patches_change_what_they_name_and_nothing_else)
{
	PLAIN(w);
	struct api_answer a AUTO(answer_clear) = { 0 };
	struct api_answer status AUTO(answer_clear) = { 0 };
	struct api_answer same AUTO(answer_clear) = { 0 };

	create(&w, "v", ",\"annotations\":{\"a\":\"1\",\"b\":\"2\"}");
	a = patch(&w, VOLUMES "/v",
	          "{\"metadata\":{\"annotations\":{\"a\":null,\"c\":\"3\"},"
	          "\"generation\":9,\"creationTimestamp\":\"x\"},"
	          "\"status\":{\"phase\":\"Bound\"}}");
	ck_assert_uint_eq(a.code, 200);
	ck_assert_ptr_null(object_annotation(a.json, "a"));
	ck_assert_str_eq(object_annotation(a.json, "b"), "2");
	ck_assert_str_eq(object_annotation(a.json, "c"), "3");
	ck_assert_int_eq(object_generation(a.json), 1);
	ck_assert_ptr_null(json_at(a.json, "status"));
	status = patch(&w, VOLUMES "/v/status", "{\"status\":{\"phase\":\"Bound\"},\"spec\":null}");
	ck_assert_uint_eq(status.code, 200);
	ck_assert_str_eq(json_str(status.json, "status.phase"), "Bound");
	ck_assert_str_eq(json_str(status.json, "spec.dpuStoragePolicyName"), "p");
	same = patch(&w, VOLUMES "/v", "{}");
	ck_assert_str_eq(json_str(same.json, "metadata.resourceVersion"),
	                 json_str(status.json, "metadata.resourceVersion"));
	world_ok(&w, "PATCH", VOLUMES "/x", "{}", 404);
	world_ok(&w, "PATCH", VOLUMES "/v", "{\"metadata\":{\"resourceVersion\":\"1\"}}", 409);
	world_ok(&w, "PATCH", VOLUMES "/v", "{\"metadata\":{\"uid\":\"1\"}}", 422);
	world_ok(&w, "PATCH", VOLUMES "/v", "{\"metadata\":{\"name\":\"w\"}}", 400);
}
END_TEST

START_TEST(immutable_fields_say_so)
{
	static const struct {
		const char *spec, *text;
	} rows[] = {
		{ "\"dpuStoragePolicyName\":\"q\"", "dpuStoragePolicy field is immutable" },
		{ "\"parameters\":{\"a\":\"b\"}", "parameters field is immutable" },
		{ "\"accessModes\":[\"ReadWriteMany\"]", "accessModes field is immutable" },
		{ "\"resources\":{\"requests\":{\"storage\":\"2Gi\"}}",
		  "resources field is immutable" },
		{ "\"volumeMode\":\"Block\"", "volumeMode field is immutable" },
	};
	PLAIN(w);
	struct api_answer vendor AUTO(answer_clear) = { 0 };

	create(&w, "v", "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *body AUTO(free) = xasprintf("{\"spec\":{%s}}", rows[i].spec);
		struct api_answer a AUTO(answer_clear) = patch(&w, VOLUMES "/v", body);

		ck_assert_uint_eq(a.code, 422);
		ck_assert_msg(strstr(a.text, rows[i].text), "%s: %s", rows[i].spec, a.text);
	}
	world_ok(
		&w, "POST", STORAGE_API "/dpustoragevendors",
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUStorageVendor\","
		"\"metadata\":{\"name\":\"d\"},\"spec\":{\"storageClassName\":\"a\","
		"\"pluginName\":\"b\"}}",
		201);
	vendor = patch(&w, STORAGE_API "/dpustoragevendors/d", "{\"spec\":{\"pluginName\":\"c\"}}");
	ck_assert_uint_eq(vendor.code, 200);
	ck_assert_int_eq(object_generation(vendor.json), 2);
}
END_TEST

START_TEST(updates_need_the_newest_version)
{
	PLAIN(w);
	struct json *o AUTO(json_free) = NULL;
	char *body AUTO(free) = NULL;
	char *without AUTO(free) = NULL;
	struct api_answer got AUTO(answer_clear) = { 0 };
	struct api_answer stale AUTO(answer_clear) = { 0 };

	create(&w, "v", "");
	got = world_call(&w, "GET", VOLUMES "/v", NULL);
	o = json_copy(got.json);
	json_set_str(json_sub(json_sub(o, "metadata"), "labels"), "a", "b");
	body = json_print(o);
	world_ok(&w, "PUT", VOLUMES "/v", body, 200);
	stale = world_call(&w, "PUT", VOLUMES "/v", body);
	ck_assert_uint_eq(stale.code, 409);
	ck_assert_str_eq(json_str(stale.json, "reason"), "Conflict");
	ck_assert_ptr_nonnull(strstr(stale.text, "the object has been modified"));
	json_remove(json_sub(o, "metadata"), "resourceVersion");
	without = json_print(o);
	world_ok(&w, "PUT", VOLUMES "/v", without, 422);
	world_ok(&w, "PUT", VOLUMES "/x", body, 400);
}
END_TEST

START_TEST(deletion_honours_preconditions_and_finalizers)
{
	PLAIN(w);
	struct api_answer gone AUTO(answer_clear) = { 0 };
	struct api_answer held AUTO(answer_clear) = { 0 };

	create(&w, "plain", "");
	create(&w, "held", ",\"finalizers\":[\"a.b/c\",\"a.b/d\"]");
	world_ok(&w, "DELETE", VOLUMES "/plain", "{\"preconditions\":{\"uid\":\"other\"}}", 409);
	world_ok(&w, "DELETE", VOLUMES "/plain", "{\"preconditions\":{\"resourceVersion\":\"1\"}}",
	         409);
	gone = world_call(&w, "DELETE", VOLUMES "/plain", NULL);
	ck_assert_str_eq(json_str(gone.json, "status"), "Success");
	world_ok(&w, "GET", VOLUMES "/plain", NULL, 404);
	held = world_call(&w, "DELETE", VOLUMES "/held", NULL);
	ck_assert(object_is_deleting(held.json));
	ck_assert_int_eq(object_generation(held.json), 2);
	world_ok(&w, "DELETE", VOLUMES "/held", NULL, 200);
	world_ok(&w, "PATCH", VOLUMES "/held", "{\"metadata\":{\"finalizers\":[\"a.b/x\"]}}", 422);
	world_ok(&w, "PATCH", VOLUMES "/held", "{\"metadata\":{\"deletionTimestamp\":null}}", 200);
	world_ok(&w, "PATCH", VOLUMES "/held", "{\"metadata\":{\"finalizers\":[\"a.b/d\"]}}", 200);
	world_ok(&w, "GET", VOLUMES "/held", NULL, 200);
	world_ok(&w, "PATCH", VOLUMES "/held", "{\"metadata\":{\"finalizers\":null}}", 200);
	world_ok(&w, "GET", VOLUMES "/held", NULL, 404);
	world_ok(&w, "DELETE", VOLUMES "/held", NULL, 404);
}
END_TEST

START_TEST(a_dry_run_changes_nothing)
{
	PLAIN(w);
	char *body AUTO(free) = volume_json_text("v", "p");

	world_ok(&w, "POST", VOLUMES "?dryRun=All", body, 201);
	world_ok(&w, "GET", VOLUMES "/v", NULL, 404);
}
END_TEST

START_TEST(the_token_is_asked_for)
{
	WORLD(w, "--no-dpf", "--no-fabric", "--token=secret");
	struct api_call call = {
		.sim = &w.sim, .method = "GET", .path = "/api/v1/nodes", .client_fd = -1
	};
	static const struct {
		const char *header;
		unsigned code;
	} rows[] = {
		{ NULL, 401 }, { "Bearer wrong", 401 }, { "secret", 401 }, { "Bearer secret", 200 }
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reply reply;

		call.authorization = rows[i].header;
		api_handle(&call, &reply);
		ck_assert_uint_eq(reply.code, rows[i].code);
		reply_clear(&reply);
	}
}
END_TEST

START_TEST(requests_are_counted_by_verb_and_resource)
{
	PLAIN(w);
	struct api_answer none AUTO(answer_clear) = { 0 };
	struct api_answer a AUTO(answer_clear) = { 0 };

	create(&w, "v", "");
	world_ok(&w, "GET", VOLUMES, NULL, 200);
	world_ok(&w, "PATCH", VOLUMES "/v/status", "{}", 200);
	a = world_call(&w, "GET", "/sim/requests", NULL);
	ck_assert_str_eq(a.text, "{\"create\":{\"dpuvolumes\":1},\"list\":{\"dpuvolumes\":1},"
	                         "\"patch\":{\"dpuvolumes/status\":1}}");
	world_ok(&w, "DELETE", "/sim/requests", NULL, 200);
	none = world_call(&w, "GET", "/sim/requests", NULL);
	ck_assert_str_eq(none.text, "{}");
}
END_TEST

SUITE("sim api", a_new_object_gets_what_the_server_gives,
      wrong_objects_are_refused_with_the_servers_words, attachments_are_validated,
      names_that_exist_or_do_not_are_told_in_details, paths_lead_where_they_should,
      objects_are_the_same_in_each_served_version, pages_hold_every_object_once, lists_are_selected,
      patches_change_what_they_name_and_nothing_else, immutable_fields_say_so,
      updates_need_the_newest_version, deletion_honours_preconditions_and_finalizers,
      a_dry_run_changes_nothing, the_token_is_asked_for, requests_are_counted_by_verb_and_resource);
