/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start-up taints with the real Kubernetes client against snap-sim: nodes that register early, late
 * and never, taints that return, an unreachable API server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "controller/node_taint.h"
#include "controller/startup_taint.h"
#include "dpf/dpu_node.h"
#include "kube/kube_priv.h"
#include "test/lib/sim_process.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define DRIVER "csi.snap.nvidia.com"
#define KEY DRIVER "/agent-not-ready"
#define OTHER "{\"key\":\"other\",\"effect\":\"NoSchedule\"}"
#define OURS "{\"key\":\"" KEY "\",\"effect\":\"NoExecute\"}"
#define WAIT_MS WAIT_LIMIT_MS
#define FAR_AWAY_MS 3600000 /* no test sees the periodic scan unless it requests it */

static struct startup_taint *taints;
static struct kube *other; /* this test's own client */

static struct kube *client(void)
{
	char *config AUTO(free) = xasprintf("%s/kubeconfig", sim.dir);
	const struct kube_options o = { .kubeconfig = config, .user_agent = "snap-csi/test" };
	const struct kube_tuning short_pauses = { .mistake_ms = 50, .watch_backoff_ms = 50 };
	struct kube *k = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(kube_new_tuned(&o, &short_pauses, &k, &err) == 0, "%s", err.msg);
	return k;
}

static void begin(void)
{
	sim_start(NULL);
	other = client();
}

static void watch(int page_ms)
{
	struct startup_taint_options o = {
		.driver = DRIVER, .page_ms = page_ms, .page = 2, .retry_ms = 20
	};
	struct err err = ERR_INIT;

	sim.kube = kube_free(sim.kube);
	o.kube = sim.kube = client();
	ck_assert_msg(startup_taint_start(&o, &taints, &err) == 0, "%s", err.msg);
}

static void end(void)
{
	startup_taint_stop(taints);
	other = kube_free(other);
	sim_stop();
	taints = startup_taint_free(taints);
}

static struct json *parse(const char *text)
{
	struct json *j = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(json_parse("test", text, strlen(text), &j, &err) == 0, "%s", err.msg);
	return j;
}

static void create(const struct kube_kind *kind, const char *text)
{
	struct json *object AUTO(json_free) = parse(text), *made AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(
		kube_create(other, kind, NULL, object, deadline_in_ms(WAIT_MS), &made, &err) == 0,
		"%s", err.msg);
}

static struct json *get(const struct kube_kind *kind, const char *name)
{
	struct json *object = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(kube_get(other, kind, NULL, name, deadline_in_ms(WAIT_MS), &object, &err) ==
	                      0,
	              "%s", err.msg);
	return object;
}

static void patch(const struct kube_kind *kind, const char *name, const char *text)
{
	struct json *change AUTO(json_free) = parse(text);
	struct err err = ERR_INIT;

	ck_assert_msg(kube_patch(other, kind, NULL, name, change, deadline_in_ms(WAIT_MS), NULL,
	                         &err) == 0,
	              "%s", err.msg);
}

static void remove_object(const struct kube_kind *kind, const char *name)
{
	struct err err = ERR_INIT;

	ck_assert_msg(kube_delete(other, kind, NULL, name, NULL, deadline_in_ms(WAIT_MS), &err) >=
	                      0,
	              "%s", err.msg);
}

static void node(const char *name)
{
	char *text AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"taints\":[" OTHER "," OURS "]}}",
		name);

	create(&core_node_kind, text);
}

/* As kubelet creates it: for the current Node. malloc'ed. */
static char *csi_node_text(const char *name, const char *drivers)
{
	struct json *of AUTO(json_free) = get(&core_node_kind, name);

	return xasprintf("{\"metadata\":{\"name\":\"%s\",\"ownerReferences\":[{\"apiVersion\":"
	                 "\"v1\",\"kind\":\"Node\",\"name\":\"%s\",\"uid\":\"%s\"}]},"
	                 "\"spec\":{\"drivers\":[%s]}}",
	                 name, name, json_str(of, "metadata.uid"), drivers);
}

static void csi_node(const char *name, const char *drivers)
{
	char *text AUTO(free) = csi_node_text(name, drivers);

	create(&csi_node_kind, text);
}

#define REGISTERED "{\"name\":\"" DRIVER "\",\"nodeID\":\"n\",\"topologyKeys\":null}"

static bool tainted(const char *name)
{
	struct json *n AUTO(json_free) = get(&core_node_kind, name);
	struct json *kept AUTO(json_free) = parse(OTHER);

	ck_assert(json_equal(json_first(json_at(n, "spec.taints")), kept));
	return node_taint_is_on(n, KEY);
}

static void goes(const char *name)
{
	struct deadline d = deadline_in_ms(WAIT_MS);

	while (tainted(name)) {
		ck_assert_msg(!deadline_passed(d), "the taint of %s stays", name);
		usleep(20000);
	}
}

/* Another node's taint was removed, although its event came later. */
static void stays_while_it_goes(const char *name, const char *of)
{
	csi_node(of, REGISTERED);
	goes(of);
	ck_assert_msg(tainted(name), "the taint of %s has gone", name);
}

static int64_t count(const char *result)
{
	return (int64_t)metric_value(METRIC_STARTUP_TAINTS, LABELS(result));
}

/* The driver counts a result when the answer arrives, after a test can see the effect. */
static void counts(const char *result, int64_t expected)
{
	WAIT_UNTIL(count(result) >= expected);
	ck_assert_int_eq(count(result), expected);
}

START_TEST(nodes_of_before_and_nodes_that_come)
{
	int64_t removed = count("ok"), failed = count("failed");

	begin();
	for (int i = 0; i < 7; i++) {
		char name[8];

		snprintf(name, sizeof(name), "m%d", i);
		node(name);
		if (i != 6)
			csi_node(name, i == 5 ? "" : REGISTERED);
	}
	watch(FAR_AWAY_MS);
	for (int i = 0; i < 5; i++) {
		char name[8];

		snprintf(name, sizeof(name), "m%d", i);
		goes(name);
	}
	stays_while_it_goes("m5", "m6");
	patch(&csi_node_kind, "m5", "{\"spec\":{\"drivers\":[" REGISTERED "]}}");
	goes("m5");
	counts("ok", removed + 7);
	counts("failed", failed);
	end();
}
END_TEST

/* Its CSINode still exists when the Node has been re-created, with the taint. */
START_TEST(a_node_that_is_made_anew_keeps_its_taint_until_it_is_registered_anew)
{
	begin();
	node("a");
	node("b");
	csi_node("a", REGISTERED);
	watch(FAR_AWAY_MS);
	goes("a");
	remove_object(&core_node_kind, "a");
	node("a");
	patch(&csi_node_kind, "a", "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}");
	stays_while_it_goes("a", "b");
	remove_object(&csi_node_kind, "a");
	csi_node("a", REGISTERED);
	goes("a");
	end();
}
END_TEST

/* There is no event: kubelet writes nothing if nothing has changed. */
START_TEST(a_taint_that_comes_back_goes_with_the_round)
{
	begin();
	node("a");
	csi_node("a", REGISTERED);
	watch(50);
	for (int i = 0; i < 3; i++) {
		goes("a");
		patch(&core_node_kind, "a", "{\"spec\":{\"taints\":[" OTHER "," OURS "]}}");
	}
	goes("a");
	end();
}
END_TEST

START_TEST(what_the_api_server_refuses_is_tried_again)
{
	static const char *const faults[] = {
		"{\"verb\":\"patch\",\"resource\":\"nodes\",\"status\":503}",
		"{\"verb\":\"patch\",\"resource\":\"nodes\",\"status\":403}",
		"{\"verb\":\"patch\",\"resource\":\"nodes\",\"status\":409}",
		"{\"verb\":\"get\",\"resource\":\"csinodes\",\"status\":500}",
		"{\"verb\":\"get\",\"resource\":\"nodes\",\"status\":403}",
	};

	int64_t before = count("failed");
	char *text AUTO(free) = NULL;

	begin();
	node("a");
	node("b");
	watch(FAR_AWAY_MS);
	csi_node("b", REGISTERED);
	goes("b");
	text = csi_node_text("a", REGISTERED);
	sim_fault(faults[_i]);
	create(&csi_node_kind, text);
	WAIT_UNTIL(count("failed") >= before + 2);
	sim_heal();
	goes("a");
	end();
}
END_TEST

/* Adds a taint as a careful client does: only in the state that was read; otherwise it retries. */
static void add_taint(const char *name)
{
	for (;;) {
		struct json *n AUTO(json_free) = get(&core_node_kind, name);
		char *change AUTO(free) = NULL, *list AUTO(free) = NULL;
		struct json *taints_now AUTO(json_free) = json_copy(json_at(n, "spec.taints"));
		struct json *patch_now AUTO(json_free) = NULL;
		struct err err = ERR_INIT;

		json_append(taints_now, parse("{\"key\":\"x\",\"effect\":\"NoSchedule\"}"));
		list = json_print(taints_now);
		change = xasprintf(
			"{\"metadata\":{\"resourceVersion\":\"%s\"},\"spec\":{\"taints\":%s}}",
			json_str(n, "metadata.resourceVersion"), list);
		patch_now = parse(change);
		if (kube_patch(other, &core_node_kind, NULL, name, patch_now,
		               deadline_in_ms(WAIT_MS), NULL, &err) == 0)
			return;
		ck_assert_msg(err.code == ERR_ABORTED, "%s", err.msg);
	}
}

/* The driver has read the node, and its write is on the way. */
START_TEST(a_taint_that_somebody_puts_on_at_that_moment_stays)
{
	struct deadline d = deadline_in_ms(WAIT_MS);
	struct json *n AUTO(json_free) = NULL;
	char *is AUTO(free) = NULL;
	bool on_its_way = false;

	begin();
	node("a");
	csi_node("a", REGISTERED);
	sim_fault("{\"verb\":\"patch\",\"resource\":\"nodes\",\"times\":1,\"latencyMs\":3000}");
	watch(FAR_AWAY_MS);
	while (!on_its_way) {
		char *requests AUTO(free) = sim_http("GET", "/sim/requests", "");

		on_its_way = strstr(requests, "\"patch\"") != NULL;
		ck_assert(!deadline_passed(d));
		usleep(20000);
	}
	add_taint("a");
	goes("a");
	n = get(&core_node_kind, "a");
	is = json_print(json_at(n, "spec.taints"));
	ck_assert_str_eq(is, "[" OTHER ",{\"key\":\"x\",\"effect\":\"NoSchedule\"}]");
	end();
}
END_TEST

#define MANY 40

START_TEST(two_controllers_and_who_puts_other_taints_on_do_each_others_work_no_harm)
{
	struct startup_taint *second = NULL;
	struct startup_taint_options o = { .driver = DRIVER,
		                           .page_ms = FAR_AWAY_MS,
		                           .retry_ms = 20 };
	char names[MANY][8];
	struct err err = ERR_INIT;

	begin();
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "m%d", i);
		node(names[i]);
		csi_node(names[i], REGISTERED);
	}
	watch(FAR_AWAY_MS);
	o.kube = client();
	ck_assert_msg(startup_taint_start(&o, &second, &err) == 0, "%s", err.msg);
	for (int i = 0; i < MANY; i++)
		add_taint(names[i]);
	for (int i = 0; i < MANY; i++) {
		struct json *n AUTO(json_free) = NULL;
		char *is AUTO(free) = NULL;

		goes(names[i]);
		n = get(&core_node_kind, names[i]);
		is = json_print(json_at(n, "spec.taints"));
		ck_assert_str_eq(is, "[" OTHER ",{\"key\":\"x\",\"effect\":\"NoSchedule\"}]");
	}
	startup_taint_stop(second);
	kube_free(o.kube);
	startup_taint_free(second);
	end();
}
END_TEST

START_TEST(the_end_does_not_wait_for_the_api_server)
{
	begin();
	node("a");
	csi_node("a", REGISTERED);
	sim_fault("{\"verb\":\"patch\",\"resource\":\"nodes\",\"hang\":true}");
	watch(FAR_AWAY_MS);
	usleep(200000);
	startup_taint_stop(taints);
	other = kube_free(other);
	sim_stop();
	taints = startup_taint_free(taints);
}
END_TEST

SUITE_TIMEOUT("startup taint", 120, nodes_of_before_and_nodes_that_come,
              a_node_that_is_made_anew_keeps_its_taint_until_it_is_registered_anew,
              a_taint_that_comes_back_goes_with_the_round,
              LOOP(what_the_api_server_refuses_is_tried_again, 5),
              a_taint_that_somebody_puts_on_at_that_moment_stays,
              two_controllers_and_who_puts_other_taints_on_do_each_others_work_no_harm,
              the_end_does_not_wait_for_the_api_server);
