/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ListVolumes and ControllerGetVolume with the real Kubernetes client against snap-sim: the cost of
 * a page, the content of pages while volumes and attachments are created and deleted, and the
 * result when the API server answers wrongly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "controller/attachment_index.h"
#include "dpf/dpu_attachment.h"
#include "kube/kube_priv.h"
#include "test/lib/controller_door.h"
#include "test/lib/sim_process.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

static struct controller c;
static struct keylock *locks;

static void start(void)
{
	char *config AUTO(free) = NULL;
	struct kube_options o = { .user_agent = "snap-csi/test" };
	const struct kube_tuning short_pauses = { .mistake_ms = 50 };
	struct err err = ERR_INIT;

	sim_start(NULL);
	config = xasprintf("%s/kubeconfig", sim.dir);
	o.kubeconfig = config;
	sim.kube = kube_free(sim.kube);
	ck_assert_msg(kube_new_tuned(&o, &short_pauses, &sim.kube, &err) == 0, "%s", err.msg);
	c = (struct controller) { .kube = sim.kube,
		                  .namespace = SIM_NS,
		                  .driver_name = "csi.snap.nvidia.com",
		                  .wait_timeout_ms = WAIT_LIMIT_MS };
	c.attachments = attachment_index_new(c.kube, c.namespace, c.driver_name);
	locks = keylock_new();
}

static void stop(void)
{
	locks = keylock_free(locks);
	sim_stop();
	c.attachments = attachment_index_free(c.attachments);
}

static int call(const char *method, const char *request, struct json **ret, struct err *err)
{
	struct json *q AUTO(json_free) = NULL;

	*err = (struct err)ERR_INIT;
	ck_assert_int_eq(json_parse("request", request, strlen(request), &q, err), 0);
	return door_call(&c, locks, method, q, ret, err);
}

#define CAP "{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},\"mount\":{\"fs_type\":\"ext4\"}}"

static void create(const char *name)
{
	char *q AUTO(free) = xasprintf("{\"name\":\"%s\",\"volume_capabilities\":[" CAP
	                               "],\"parameters\":{\"policy\":\"example-policy\"}}",
	                               name);
	struct err err;

	ck_assert_msg(call("CreateVolume", q, NULL, &err) == 0, "%s", err.msg);
}

static void publish(const char *name, const char *node)
{
	char *q AUTO(free) = xasprintf("{\"volume_id\":\"%s\",\"node_id\":\"%s\","
	                               "\"volume_capability\":" CAP "}",
	                               name, node);
	struct err err;

	ck_assert_msg(call("ControllerPublishVolume", q, NULL, &err) == 0, "%s", err.msg);
}

/* Appends "id[nodes] " of each entry. */
static void tell(const struct json *reply, struct str *out)
{
	json_foreach (entry, json_at(reply, "entries")) {
		str_addf(out, "%s[", json_str(entry, "volume.volume_id"));
		json_foreach (node, json_at(entry, "status.published_node_ids"))
			str_add(out, json_text(node));
		str_add(out, "] ");
	}
}

/* Reads one page; *token is replaced by that of the next one, "" after the last. */
static int list(int most, char **token, struct str *out, struct err *err)
{
	char *q AUTO(free) =
		xasprintf("{\"max_entries\":%d,\"starting_token\":\"%s\"}", most, *token);
	struct json *reply AUTO(json_free) = NULL;
	const char *next;

	if (call("ListVolumes", q, &reply, err))
		return -1;
	tell(reply, out);
	next = json_str(reply, "next_token");
	free(*token);
	*token = xstrdup(next ? next : "");
	return 0;
}

static void list_is(const char *want)
{
	struct str out AUTO(str_clear) = STR_INIT(4096);
	char *token AUTO(free) = xstrdup("");
	struct err err;

	ck_assert_msg(list(0, &token, &out, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(out.ptr, want);
	ck_assert_str_eq(token, "");
}

/* Waits until the list shows it; an event arrives within moments. */
static void list_becomes(const char *want)
{
	struct deadline limit = wait_limit();

	do {
		struct str out AUTO(str_clear) = STR_INIT(4096);
		char *token AUTO(free) = xstrdup("");
		struct err err;

		if (list(0, &token, &out, &err) == 0 && str_eq(out.ptr, want))
			return;
	} while (wait_a_moment(limit));
	list_is(want);
}

START_TEST(a_page_costs_one_list_whatever_is_attached)
{
	struct str out AUTO(str_clear) = STR_INIT(4096);
	char *token AUTO(free) = xstrdup("");
	struct json *reply AUTO(json_free) = NULL;
	char *cost = NULL;
	struct err err;

	start();
	for (char name[] = "v0"; name[1] < '5'; name[1]++)
		create(name);
	publish("v1", "n1");
	publish("v3", "n2");
	sim_settle();
	do
		ck_assert_msg(list(2, &token, &out, &err) == 0, "%s", err.msg);
	while (*token);
	ck_assert_str_eq(out.ptr, "v0[] v1[n1] v2[] v3[n2] v4[] ");
	cost = sim_requests();
	ck_assert_str_eq(cost, "{\"list\":{\"dpuvolumes\":3}}");
	free(cost);
	ck_assert_int_eq(call("ControllerGetVolume", "{\"volume_id\":\"v3\"}", &reply, &err), 0);
	ck_assert_str_eq(json_text(json_first(json_at(reply, "status.published_node_ids"))), "n2");
	cost = sim_requests();
	ck_assert_str_eq(cost, "{\"get\":{\"dpuvolumes\":1,\"dpuvolumeattachments\":1}}");
	free(cost);
	stop();
}
END_TEST

/* The API server's snapshot expires between two pages, as etcd's does after five minutes. */
START_TEST(who_pages_through_changes_sees_each_volume_that_stays_once)
{
	struct str out AUTO(str_clear) = STR_INIT(4096);
	char *token AUTO(free) = xstrdup("");
	struct err err;

	start();
	for (char name[] = "v0"; name[1] < '6'; name[1]++)
		create(name);
	ck_assert_int_eq(list(2, &token, &out, &err), 0);
	create("v01");
	create("v31");
	ck_assert_int_eq(call("DeleteVolume", "{\"volume_id\":\"v1\"}", NULL, &err), 0);
	ck_assert_int_eq(call("DeleteVolume", "{\"volume_id\":\"v4\"}", NULL, &err), 0);
	if (_i)
		free(sim_http("POST", "/sim/expire", ""));
	ck_assert_msg(list(2, &token, &out, &err) == 0, "%s", err.msg);
	while (*token)
		ck_assert_msg(list(2, &token, &out, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(out.ptr, "v0[] v1[] v2[] v3[] v31[] v5[] ");
	stop();
}
END_TEST

/* The repair by external-attacher: it lists, and publishes volumes that are no longer published. */
START_TEST(an_attachment_that_somebody_deletes_is_told_and_made_again)
{
	struct err err = ERR_INIT;

	start();
	create("pvc-1");
	list_is("pvc-1[] ");
	publish("pvc-1", "n1");
	list_is("pvc-1[n1] ");
	/* It is published until it is deleted: it could not be re-created earlier. */
	sim_fault("{\"dpf\":\"attachment-finalizer-stuck\"}");
	ck_assert_int_eq(kube_delete(sim.kube, &dpu_attachment_kind, SIM_NS, "n1-pvc-1", NULL,
	                             wait_limit(), &err),
	                 0);
	usleep(300000);
	list_is("pvc-1[n1] ");
	sim_heal();
	list_becomes("pvc-1[] ");
	publish("pvc-1", "n1");
	list_is("pvc-1[n1] ");
	stop();
}
END_TEST

/* A node cannot use an attachment that the DPU has not completed. */
START_TEST(what_is_being_attached_is_not_published)
{
	struct err err;

	start();
	create("pvc-1");
	sim_fault("{\"dpf\":\"attachment-never-ready\"}");
	c.wait_timeout_ms = 1000;
	ck_assert_int_eq(call("ControllerPublishVolume",
	                      "{\"volume_id\":\"pvc-1\",\"node_id\":\"n1\","
	                      "\"volume_capability\":" CAP "}",
	                      NULL, &err),
	                 -1);
	list_is("pvc-1[] ");
	sim_heal();
	list_becomes("pvc-1[n1] ");
	stop();
}
END_TEST

START_TEST(what_is_being_made_is_not_listed)
{
	struct err err;

	start();
	create("pvc-1");
	sim_fault("{\"dpf\":\"volume-never-bound\"}");
	c.wait_timeout_ms = 1000;
	ck_assert_int_eq(call("CreateVolume",
	                      "{\"name\":\"pvc-2\",\"volume_capabilities\":[" CAP
	                      "],\"parameters\":{\"policy\":\"example-policy\"}}",
	                      NULL, &err),
	                 -1);
	list_is("pvc-1[] ");
	ck_assert_int_eq(call("ControllerGetVolume", "{\"volume_id\":\"pvc-2\"}", NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_NOT_FOUND);
	sim_heal();
	list_becomes("pvc-1[] pvc-2[] ");
	stop();
}
END_TEST

#define LIST_(more) "{\"verb\":\"list\",\"resource\":\"dpuvolumes\"," more "}"
#define PAGE "\"body\":\"<html>no</html>\""

static const struct {
	const char *what, *fault;
	enum err_code first, behind; /* of the first page, and of one after a token */
} faults[] = {
	{ "null", LIST_("\"body\":\"null\""), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "an array", LIST_("\"body\":\"[]\""), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "an empty object", LIST_("\"body\":\"{}\""), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "nothing", LIST_("\"body\":\"\""), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "a page", LIST_(PAGE), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "another list",
	  LIST_("\"body\":\"{\\\"kind\\\":\\\"List\\\",\\\"metadata\\\":{},\\\"items\\\":[]}\""),
	  ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "another kind", LIST_("\"wrong\":\"kind\""), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "a Status of success",
	  LIST_("\"body\":\"{\\\"kind\\\":\\\"Status\\\",\\\"status\\\":\\\"Success\\\"}\""),
	  ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "400", LIST_("\"status\":400"), ERR_INVALID, ERR_ABORTED },
	{ "400 with a page", LIST_("\"status\":400," PAGE), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "403", LIST_("\"status\":403"), ERR_PERMISSION, ERR_PERMISSION },
	{ "403 with a page", LIST_("\"status\":403," PAGE), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "403 once", LIST_("\"status\":403,\"times\":1"), ERR_OK, ERR_OK },
	{ "404 with a page", LIST_("\"status\":404," PAGE), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "not served", LIST_("\"unserved\":true"), ERR_PRECONDITION, ERR_PRECONDITION },
	{ "410", LIST_("\"status\":410"), ERR_UNAVAILABLE, ERR_ABORTED },
	{ "410 with a page", LIST_("\"status\":410," PAGE), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "500", LIST_("\"status\":500"), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "500 once", LIST_("\"status\":500,\"times\":1"), ERR_OK, ERR_OK },
	{ "503 with a page", LIST_("\"status\":503," PAGE), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "cut in the answer", LIST_("\"cut\":true"), ERR_UNAVAILABLE, ERR_UNAVAILABLE },
	{ "cut once", LIST_("\"cut\":true,\"times\":1"), ERR_OK, ERR_OK },
	{ "no answer", LIST_("\"hang\":true"), ERR_DEADLINE, ERR_DEADLINE },
};

START_TEST(of_a_wrong_answer_no_list_is_made)
{
	start();
	for (char name[] = "v0"; name[1] < '3'; name[1]++)
		create(name);
	for (size_t i = 0; i < ARRAY_LEN(faults) * 2; i++) {
		enum err_code want = i % 2 ? faults[i / 2].behind : faults[i / 2].first;
		struct str out AUTO(str_clear) = STR_INIT(4096);
		char *token AUTO(free) = xstrdup("");
		struct err err;

		if (i % 2)
			ck_assert_int_eq(list(1, &token, &out, &err), 0);
		sim_fault(faults[i / 2].fault);
		/* A refusal is requested twice before it is trusted. */
		c.wait_timeout_ms =
			want == ERR_UNAVAILABLE || want == ERR_DEADLINE ? 200 : WAIT_LIMIT_MS;
		IGNORE_RESULT(list(1, &token, &out, &err));
		sim_heal();
		c.wait_timeout_ms = WAIT_LIMIT_MS;
		/* For attempts until the deadline, either code is correct. */
		if (want == ERR_UNAVAILABLE && err.code == ERR_DEADLINE)
			want = ERR_DEADLINE;
		ck_assert_msg(err.code == want, "%s, page %zu: %s %s", faults[i / 2].what,
		              i % 2 + 1, err_code_name(err.code), err.msg);
		ck_assert_msg(want == ERR_OK || str_eq(out.ptr, i % 2 ? "v0[] " : ""), "%s: %s",
		              faults[i / 2].what, out.ptr);
		list_is("v0[] v1[] v2[] ");
	}
	stop();
}
END_TEST

SUITE_TIMEOUT("lists against snap-sim", 120, a_page_costs_one_list_whatever_is_attached,
              LOOP(who_pages_through_changes_sees_each_volume_that_stays_once, 2),
              an_attachment_that_somebody_deletes_is_told_and_made_again,
              what_is_being_attached_is_not_published, what_is_being_made_is_not_listed,
              of_a_wrong_answer_no_list_is_made);
