/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ListVolumes and ControllerGetVolume report the existing volumes and their nodes, and nothing
 * else.
 */
#include "controller/volume_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "controller/attachment_index.h"
#include "test/lib/controller_door.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define V "dpuvolumes"
#define A "dpuvolumeattachments"
#define DRIVER "csi.snap.nvidia.com"

static struct controller c;

static void volume(const char *name, const char *meta, const char *status)
{
	char *text AUTO(free) =
		xasprintf("{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{\"dpuStoragePolicyName\":"
	                  "\"gold\",\"accessModes\":[\"ReadWriteOnce\"],\"volumeMode\":\"Block\"},"
	                  "\"status\":{%s}}",
	                  name, meta, status);

	fake_put(V, text);
}

#define STATE \
	"\"state\":{\"selectedDPUStorageVendorName\":\"v1\",\"volumeInfo\":{\"capacity\":{\"storage\":\"1Gi\"}}}"
#define BOUND "\"phase\":\"Bound\"," STATE

static void attachment(const char *name, const char *volume_name, const char *node,
                       const char *meta, const char *status)
{
	char *text AUTO(free) = xasprintf("{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{"
	                                  "\"dpuVolumeName\":\"%s\",\"dpuNodeName\":\"%s\"},"
	                                  "\"status\":%s}",
	                                  name, meta, volume_name, node, status);

	fake_put(A, text);
}

#define ATTACHED "{\"dpuAttached\":true}"

static void begin(void)
{
	c = (struct controller) { .namespace = FAKE_NS, .driver_name = DRIVER };
	c.attachments = attachment_index_new(NULL, FAKE_NS, DRIVER);
}

static void end(void)
{
	c.attachments = attachment_index_free(c.attachments);
	fake_reset();
}

/* "id capacity [node ...]; ..." of a reply's entries. */
static char *told(const struct json *reply)
{
	struct str out AUTO(str_clear) = STR_INIT(10000);

	json_foreach (entry, json_at(reply, "entries")) {
		struct err err = ERR_INIT;
		int64_t capacity = 0;

		IGNORE_RESULT(json_get_i64(entry, "volume.capacity_bytes", &capacity, &err));
		str_addf(&out, "%s%s %" PRId64 " [", out.len ? "; " : "",
		         json_str(entry, "volume.volume_id"), capacity);
		json_foreach (node, json_at(entry, "status.published_node_ids"))
			str_addf(&out, " %s", json_text(node));
		str_add(&out, " ]");
	}
	return str_take(&out);
}

static int call(const char *method, const char *request, struct json **reply, struct err *err)
{
	struct json *q AUTO(json_free) = fake_json(request);

	*err = (struct err)ERR_INIT;
	return door_call(&c, NULL, method, q, reply, err);
}

static void list_is(const char *what, const char *want)
{
	struct json *reply AUTO(json_free) = NULL;
	char *is AUTO(free) = NULL;
	struct err err;

	ck_assert_msg(call("ListVolumes", "{}", &reply, &err) == 0, "%s: %s", what, err.msg);
	is = told(reply);
	ck_assert_msg(str_eq(is, want), "%s: %s", what, is);
}

#define GB "1073741824"

START_TEST(every_volume_that_somebody_can_have_is_listed)
{
	static const struct {
		const char *what, *meta, *status;
		const char *attachment; /* its status; NULL: absent */
		const char *want;
	} rows[] = {
		{ "ours", ",\"annotations\":{\"csi.snap.nvidia.com/name\":\"v\"}", BOUND, NULL,
		  "v " GB " [ ]" },
		{ "the Go plugin's, or one made by hand", "", BOUND, NULL, "v " GB " [ ]" },
		{ "attached", "", BOUND, ATTACHED, "v " GB " [ n ]" },
		{ "being attached", "", BOUND, "{\"dpuAttached\":false}", "v " GB " [ ]" },
		{ "attached, and the DPU has trouble since", "", BOUND,
		  "{\"dpuAttached\":true,\"conditions\":[{\"type\":\"DPUAttached\",\"status\":"
		  "\"False\"}]}",
		  "v " GB " [ n ]" },
		{ "being deleted", ",\"deletionTimestamp\":\"x\"", BOUND, NULL, "v " GB " [ ]" },
		{ "not ready any more", "",
		  BOUND ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]", NULL,
		  "v " GB " [ ]" },
		{ "not bound any more", "", "\"phase\":\"Lost\"," STATE, NULL, "v " GB " [ ]" },
		{ "being made", "", "\"phase\":\"Pending\"", NULL, "" },
		{ "being made, no status yet", "", "", NULL, "" },
		{ "being removed before it was made", ",\"deletionTimestamp\":\"x\"",
		  "\"phase\":\"Pending\"", NULL, "" },
		{ "bound without a capacity, by hand", "", "\"phase\":\"Bound\"", NULL, "v 0 [ ]" },
		{ "attached although it says nothing of itself", "", "", ATTACHED, "v 0 [ n ]" },
		{ "with a size that is none", "",
		  "\"phase\":\"Bound\",\"state\":{\"volumeInfo\":{\"capacity\":{\"storage\":\"8Ei\"}}}",
		  ATTACHED, "v 0 [ n ]" },
		{ "with labels that are none", ",\"labels\":\"x\"", BOUND, ATTACHED,
		  "v " GB " [ n ]" },
		{ "with a phase that is none", "", "\"phase\":7," STATE, NULL, "v " GB " [ ]" },
		{ "of which only the name can be read", ",\"annotations\":[]",
		  "\"phase\":[],\"state\":\"x\",\"conditions\":7", NULL, "v 0 [ ]" },
		{ "being made, with a size that is none", ",\"labels\":7", "\"phase\":\"Pending\"",
		  NULL, "" },
		{ "with a NUL in a text", ",\"annotations\":{\"a\\u0000b\":\"\\u0000\"}", BOUND,
		  NULL, "v " GB " [ ]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		fake_reset();
		volume("v", rows[i].meta, rows[i].status);
		if (rows[i].attachment)
			attachment("n-v", "v", "n", "", rows[i].attachment);
		begin();
		list_is(rows[i].what, rows[i].want);
		end();
	}
}
END_TEST

START_TEST(nodes_are_those_that_have_the_volume_each_once)
{
	fake_reset();
	volume("a", "", BOUND);
	volume("b", "", BOUND);
	attachment("n1-a", "a", "n1", "", ATTACHED);
	attachment("by-hand", "a", "n1", "", ATTACHED);
	attachment("n2-a", "a", "n2", ",\"deletionTimestamp\":\"x\"", ATTACHED);
	attachment("n3-a", "a", "n3", "", "{}");
	attachment("n1-x", "x", "n1", "", ATTACHED);
	begin();
	list_is("before", "a " GB " [ n1 n2 ]; b " GB " [ ]");
	ck_assert_int_eq(fake.lists, 1);
	ck_assert_int_eq(fake.gets, 0);
	/* A change from the watch is listed at once. */
	fake_change_text(A, "n3-a", "{\"status\":" ATTACHED "}");
	attachment("n2-b", "b", "n2", "", ATTACHED);
	fake_then(A, "n2-a", NULL);
	ck_assert(fake_run_step());
	list_is("after", "a " GB " [ n1 n3 ]; b " GB " [ n2 ]");
	end();
}
END_TEST

/* A gRPC client accepts no answer of more than 4 MiB, and would receive none of these volumes. */
START_TEST(a_page_is_smaller_where_the_volumes_have_much_to_say)
{
	enum { VOLUMES = 40, LONG = 200 * 1024 };
	char *value AUTO(free) = xcalloc(1, LONG + 1);
	char *token AUTO(free) = xstrdup("");
	size_t told_of = 0;

	fake_reset();
	memset(value, 'x', LONG);
	for (int i = 0; i < VOLUMES; i++) {
		char *meta AUTO(free) = xasprintf(",\"annotations\":{\"csi.snap.nvidia.com/name\":"
		                                  "\"v\",\"csi.snap.nvidia.com/blockSize\":"
		                                  "\"%s\"}",
		                                  value);
		char name[16];

		snprintf(name, sizeof(name), "v%02d", i);
		volume(name, meta, BOUND);
	}
	begin();
	do {
		char *q AUTO(free) = xasprintf("{\"starting_token\":\"%s\"}", token);
		struct json *reply AUTO(json_free) = NULL;
		size_t bytes = 0, n;
		struct err err;

		ck_assert_msg(call("ListVolumes", q, &reply, &err) == 0, "%s", err.msg);
		n = json_count(json_at(reply, "entries"));
		json_foreach (entry, json_at(reply, "entries"))
			json_foreach (pair, json_at(entry, "volume.volume_context"))
				bytes += json_text(pair) ? strlen(json_text(pair)) : 0;
		ck_assert_uint_ge(n, 1);
		ck_assert_uint_ge(bytes, n * LONG);
		ck_assert_uint_le(bytes, 4 << 20);
		told_of += n;
		free(token);
		token = xstrdup(json_str(reply, "next_token") ? json_str(reply, "next_token") : "");
	} while (*token);
	ck_assert_uint_eq(told_of, VOLUMES);
	end();
}
END_TEST

START_TEST(pages_follow_each_other_by_their_tokens)
{
	static const int sizes[] = { 1, 2, 3, 5, 9, 1000 };

	fake_reset();
	for (char name[] = "v0"; name[1] < '5'; name[1]++)
		volume(name, "", name[1] == '2' ? "" : BOUND);
	begin();
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct str all AUTO(str_clear) = STR_INIT(1000);
		char *token AUTO(free) = xstrdup("");
		int pages = 0;

		do {
			char *q AUTO(free) = xasprintf(
				"{\"max_entries\":%d,\"starting_token\":\"%s\"}", sizes[i], token);
			struct json *reply AUTO(json_free) = NULL;
			char *is AUTO(free) = NULL;
			struct err err;

			ck_assert_msg(call("ListVolumes", q, &reply, &err) == 0, "%s", err.msg);
			ck_assert_uint_le(json_count(json_at(reply, "entries")), (size_t)sizes[i]);
			is = told(reply);
			str_addf(&all, "%s ", is);
			free(token);
			token = xstrdup(
				json_str(reply, "next_token") ? json_str(reply, "next_token") : "");
			pages++;
		} while (*token);
		/* The third is being created: its page is shorter. */
		for (char name[] = "v0"; name[1] < '5'; name[1]++)
			ck_assert_msg(!strstr(all.ptr, name) == (name[1] == '2'), "%s", all.ptr);
		ck_assert_int_eq(pages, sizes[i] > 5 ? 1 : (5 + sizes[i] - 1) / sizes[i]);
	}
	end();
}
END_TEST

static const struct {
	const char *what, *method, *request;
	const char *verb, *plural; /* refused with `code`; NULL: none */
	enum err_code code;
	bool expired, no_index, closed;
	const char *text;
} refusals[] = {
	{ "a negative number", "ListVolumes", "{\"max_entries\":-1}", NULL, NULL, ERR_INVALID,
	  false, false, false, "MaxEntries: -1 is negative" },
	{ "no token of ours", "ListVolumes", "{\"starting_token\":\"invalid-token\"}", NULL, NULL,
	  ERR_ABORTED, false, false, false,
	  "StartingToken: it was not issued by this driver; restart the list without a token" },
	{ "an expired token", "ListVolumes", "", NULL, NULL, ERR_ABORTED, true, false, false,
	  "StartingToken: the API server no longer accepts it; restart the list without a token" },
	{ "not allowed", "ListVolumes", "{}", "list", V, ERR_PERMISSION, false, false, false,
	  "listing the volumes of namespace dpf: no" },
	{ "the API server is away", "ListVolumes", "{}", "list", V, ERR_UNAVAILABLE, false, false,
	  false, "listing the volumes of namespace dpf: no" },
	{ "no watch", "ListVolumes", "{}", NULL, NULL, ERR_UNAVAILABLE, false, true, false,
	  "could not determine the nodes of the volumes, because the DPUVolumeAttachments "
	  "of namespace dpf cannot be watched at the moment; the driver's log has the reason; retry" },
	{ "no stream for long", "ListVolumes", "{}", NULL, NULL, ERR_UNAVAILABLE, false, false,
	  true, "could not determine the nodes of the volumes" },
	{ "no id", "ControllerGetVolume", "{}", NULL, NULL, ERR_INVALID, false, false, false,
	  "VolumeId: field is required" },
	{ "no such volume", "ControllerGetVolume", "{\"volume_id\":\"none\"}", NULL, NULL,
	  ERR_NOT_FOUND, false, false, false, "volume not found: there is no DPUVolume dpf/none" },
	{ "what no object can be called", "ControllerGetVolume", "{\"volume_id\":\"N o\"}", NULL,
	  NULL, ERR_NOT_FOUND, false, false, false,
	  "volume not found: there is no DPUVolume dpf/N o" },
	{ "one that is being made", "ControllerGetVolume", "{\"volume_id\":\"new\"}", NULL, NULL,
	  ERR_NOT_FOUND, false, false, false,
	  "volume not found: DPUVolume dpf/new is still being created" },
	{ "not to be read", "ControllerGetVolume", "{\"volume_id\":\"v\"}", "get", V,
	  ERR_PERMISSION, false, false, false, "DPUVolume dpf/v: no" },
	{ "its attachment not to be read", "ControllerGetVolume", "{\"volume_id\":\"v\"}", "get", A,
	  ERR_PERMISSION, false, false, false, "reading the attachments of volume v: " },
	{ "attachments not to be listed", "ControllerGetVolume", "{\"volume_id\":\"v\"}", "list", A,
	  ERR_UNAVAILABLE, false, true, false, "reading the attachments of volume v: " },
};

START_TEST(what_is_not_known_is_not_said)
{
	struct json *reply AUTO(json_free) = NULL, *first AUTO(json_free) = NULL;
	const char *request = refusals[_i].request;
	char *behind AUTO(free) = NULL;
	struct err err;

	fake_reset();
	volume("v", "", BOUND);
	volume("new", "", "");
	attachment("n-v", "v", "n", "", ATTACHED);
	begin();
	if (!*request) {
		ck_assert_int_eq(call("ListVolumes", "{\"max_entries\":1}", &first, &err), 0);
		behind = xasprintf("{\"starting_token\":\"%s\"}", json_str(first, "next_token"));
		request = behind;
	}
	if (refusals[_i].no_index)
		c.attachments = attachment_index_free(c.attachments);
	if (refusals[_i].closed)
		fake.follower.closed_ms = 60000;
	fake.expired = refusals[_i].expired;
	if (refusals[_i].verb)
		fake_refuse(refusals[_i].verb, refusals[_i].plural, refusals[_i].code, "no");
	ck_assert_int_eq(call(refusals[_i].method, request, &reply, &err), -1);
	ck_assert_msg(err.code == refusals[_i].code && strstr(err.msg, refusals[_i].text),
	              "%s: %d %s", refusals[_i].what, err.code, err.msg);
	end();
}
END_TEST

static char *logged;

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	free(logged);
	logged = xstrdup(line);
}

START_TEST(one_malformed_volume_hides_no_other_and_is_named_in_the_log)
{
	log_redirect(keep_line, NULL);
	fake_reset();
	volume("v", "", BOUND);
	fake_put(V, "{\"metadata\":{\"name\":\"w\"},\"spec\":{\"dpuStoragePolicyName\":7}}");
	fake_put(V, "{\"metadata\":{\"name\":\"x\"},\"status\":\"odd\"}");
	fake_put(V, "{\"metadata\":{\"name\":\"y\"},\"spec\":{\"dpuStoragePolicyName\":8}}");
	begin();
	list_is("the others", "v " GB " [ ]; x 0 [ ]");
	ck_assert_msg(strstr(logged, "DPUVolume dpf/w: spec.dpuStoragePolicyName") &&
	                      strstr(logged, "DPUVolume dpf/y: spec.dpuStoragePolicyName"),
	              "%s", logged);
	log_redirect(NULL, NULL);
	free(TAKE(logged));
	end();
}
END_TEST

/* With the index attachments are read one by one, without it they are listed. */
START_TEST(a_volume_is_told_with_the_context_of_its_creation)
{
	struct json *reply AUTO(json_free) = NULL, *want AUTO(json_free) = NULL;
	struct err err;

	fake_reset();
	volume("v",
	       ",\"annotations\":{\"csi.snap.nvidia.com/name\":\"v\","
	       "\"csi.snap.nvidia.com/functionType\":\"pf\","
	       "\"csi.snap.nvidia.com/hotplugFunction\":\"true\","
	       "\"csi.snap.nvidia.com/functionInContext\":\"true\","
	       "\"csi.snap.nvidia.com/formatPolicy\":\"never\"}",
	       BOUND);
	for (int i = 0; i < 9; i++) {
		char name[32], node[16];

		snprintf(node, sizeof(node), "n%d", i);
		snprintf(name, sizeof(name), "n%d-v", i);
		attachment(name, "v", node, "", i == 4 ? "{}" : ATTACHED);
	}
	begin();
	if (_i)
		c.attachments = attachment_index_free(c.attachments);
	ck_assert_msg(call("ControllerGetVolume", "{\"volume_id\":\"v\"}", &reply, &err) == 0, "%s",
	              err.msg);
	want = fake_json("{\"volume_id\":\"v\",\"capacity_bytes\":" GB ",\"volume_context\":{"
	                 "\"storagePolicyName\":\"gold\",\"storageVendorName\":\"v1\","
	                 "\"functionType\":\"pf\",\"hotplugFunction\":\"true\","
	                 "\"csi.snap.nvidia.com/formatPolicy\":\"never\"}}");
	ck_assert_msg(json_equal(json_at(reply, "volume"), want), "%s", json_print(reply));
	ck_assert_uint_eq(json_count(json_at(reply, "status.published_node_ids")), 8);
	end();
}
END_TEST

#define KEY "topology.csi.snap.nvidia.com/dpu"

START_TEST(with_a_topology_every_volume_has_it)
{
	struct json *want AUTO(json_free) = fake_json("[{\"segments\":{\"" KEY "\":\"true\"}}]");

	for (int on = 0; on <= 1; on++) {
		struct json *list AUTO(json_free) = NULL, *one AUTO(json_free) = NULL;
		const struct json *topology;
		struct err err;

		fake_reset();
		volume("v", "", BOUND);
		begin();
		c.topology_key = on ? KEY : NULL;
		ck_assert_msg(call("ListVolumes", "{}", &list, &err) == 0, "%s", err.msg);
		ck_assert_int_eq(call("ControllerGetVolume", "{\"volume_id\":\"v\"}", &one, &err),
		                 0);
		topology = json_at(one, "volume.accessible_topology");
		ck_assert(on ? topology && json_equal(topology, want) : !topology);
		ck_assert_uint_eq(json_count(json_at(list, "entries")), 1);
		json_foreach (entry, json_at(list, "entries")) {
			topology = json_at(entry, "volume.accessible_topology");
			ck_assert(on ? topology && json_equal(topology, want) : !topology);
		}
		end();
	}
}
END_TEST

SUITE("volume_list", with_a_topology_every_volume_has_it,
      every_volume_that_somebody_can_have_is_listed, nodes_are_those_that_have_the_volume_each_once,
      a_page_is_smaller_where_the_volumes_have_much_to_say, pages_follow_each_other_by_their_tokens,
      LOOP(what_is_not_known_is_not_said, ARRAY_LEN(refusals)),
      one_malformed_volume_hides_no_other_and_is_named_in_the_log,
      LOOP(a_volume_is_told_with_the_context_of_its_creation, 2));
