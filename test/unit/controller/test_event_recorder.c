/* SPDX-License-Identifier: Apache-2.0 */
/* Which Events are written, how often, and that none delays its caller. */
#include "controller/event_recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "dpf/core_event.h"
#include "dpf/core_volume.h"
#include "dpf/dpu_node.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"
#include "test/unit/controller/kube_memory.h"

#define DRIVER "csi.snap.nvidia.com"
#define E "events"
#define PV "persistentvolumes"

static struct event_recorder *events;

static void begin(int every_ms)
{
	const struct event_recorder_options o = { .driver = DRIVER, .every_ms = every_ms };
	struct err err = ERR_INIT;

	ck_assert_msg(!event_recorder_start(&o, &events, &err), "%s", err.msg);
}

static void end(void)
{
	event_recorder_stop(events);
	events = event_recorder_free(events);
}

static int64_t count(const char *result)
{
	return metric_value(METRIC_EVENTS, LABELS(result));
}

/* The number of existing Events; *ret is the last. */
static size_t written(const struct json **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < fake.n_objects; i++)
		if (str_eq(fake.objects[i].plural, E)) {
			*ret = fake.objects[i].tree;
			n++;
		}
	return n;
}

START_TEST(kubectl_describe_node_finds_the_event)
{
	const struct json *event = NULL;
	struct core_event read;

	fake_reset();
	begin(1);
	event_warn(events, &core_node_kind, "n1.example", "NoFreeFunction", "node n1 is full");
	WAIT_UNTIL(count("ok") == 1);
	end();
	ck_assert_uint_eq(written(&event), 1);
	read = core_event_decode(event);
	ck_assert_str_eq(read.kind, "Node");
	ck_assert_str_eq(read.name, "n1.example");
	ck_assert_str_eq(read.about, "n1.example"); /* as in the Events of kubelet */
	ck_assert_str_eq(read.reason, "NoFreeFunction");
	ck_assert_str_eq(read.message, "node n1 is full");
	ck_assert(core_event_is_news(&read, NULL));
	ck_assert_uint_eq(strlen(read.at), strlen("2026-01-01T00:00:00Z"));
	ck_assert_str_eq(json_str(event, "source.component"), DRIVER);
	ck_assert_str_eq(json_str(event, "metadata.namespace"), "default");
}
END_TEST

START_TEST(an_event_about_a_volume_has_the_uid_of_its_persistent_volume)
{
	const struct json *event = NULL;

	fake_reset();
	fake_put(PV, "{\"metadata\":{\"name\":\"pvc-1\",\"uid\":\"u-1\"},\"spec\":{\"csi\":{"
	             "\"driver\":\"" DRIVER "\",\"volumeHandle\":\"pvc-1\"}}}");
	begin(1);
	event_warn(events, &persistent_volume_kind, "pvc-1", "AttachedToOtherNode", "orphaned?");
	WAIT_UNTIL(count("ok") == 1);
	end();
	ck_assert_uint_eq(written(&event), 1);
	ck_assert_str_eq(json_str(event, "involvedObject.uid"), "u-1");
}
END_TEST

/* The PersistentVolume pvc-1; NULL: it does not exist. */
static const char *const others[] = {
	NULL,
	"{\"metadata\":{\"name\":\"pvc-1\"},\"spec\":{\"hostPath\":{}}}",
	"{\"metadata\":{\"name\":\"pvc-1\"},\"spec\":{\"csi\":{\"driver\":\"other\","
	"\"volumeHandle\":\"pvc-1\"}}}",
	"{\"metadata\":{\"name\":\"pvc-1\"},\"spec\":{\"csi\":{\"driver\":\"" DRIVER "\","
	"\"volumeHandle\":\"pvc-2\"}}}",
};

START_TEST(a_persistent_volume_of_another_gets_no_event)
{
	const struct json *event = NULL;

	fake_reset();
	if (others[_i])
		fake_put(PV, others[_i]);
	begin(1);
	event_warn(events, &persistent_volume_kind, "pvc-1", "AttachedToOtherNode", "x");
	event_warn(events, &core_node_kind, "n1", "NoFreeFunction",
	           "x"); /* the next in the queue */
	WAIT_UNTIL(count("ok") == 1);
	end();
	ck_assert_uint_eq(written(&event), 1);
	ck_assert_str_eq(json_str(event, "involvedObject.kind"), "Node");
	ck_assert_int_eq(count("failed"), 0);
}
END_TEST

START_TEST(each_object_and_reason_has_one_event_after_a_restart_too)
{
	const struct json *event;

	fake_reset();
	begin(1);
	for (int i = 0; i < 50; i++) {
		event_warn(events, &core_node_kind, "n1", "NoFreeFunction", "again");
		event_warn(events, &core_node_kind, "n2", "NoFreeFunction", "another node");
		event_warn(events, &core_node_kind, "n1", "NoUsableDPU", "another reason");
	}
	event_warn(events, &core_node_kind, "n4", "NoFreeFunction", "the last in the queue");
	WAIT_UNTIL(count("ok") == 4);
	end();
	ck_assert_uint_eq(written(&event), 4);
	ck_assert_int_eq(fake.creates, 4);
	begin(1);
	event_warn(events, &core_node_kind, "n1", "NoFreeFunction", "after a restart");
	event_warn(events, &core_node_kind, "n3", "NoFreeFunction", "a third node");
	WAIT_UNTIL(count("ok") >= 5);
	end();
	/* One more if a period has ended since the first one. */
	ck_assert_uint_ge(written(&event), 5);
	ck_assert_uint_le(written(&event), 6);
	ck_assert_int_ge(fake.creates, 5);
}
END_TEST

START_TEST(a_crowd_of_nodes_costs_one_request_at_a_time_and_the_queue_is_bounded)
{
	const struct json *event;
	char name[32];

	fake_reset();
	begin(3600000);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		event_warn(events, &core_node_kind, name, "NoFreeFunction", "x");
	}
	WAIT_UNTIL(count("ok") == 1);
	end();
	ck_assert_uint_eq(written(&event), 1);
}
END_TEST

START_TEST(an_event_that_is_refused_is_dropped_and_no_further_one_is_tried)
{
	const struct json *event;

	fake_reset();
	fake_refuse("create", E, ERR_PERMISSION, "not allowed to create events");
	begin(1);
	event_warn(events, &core_node_kind, "n1", "NoFreeFunction", "x");
	WAIT_UNTIL(count("failed") == 1);
	/*
	 * Set after the metric, under the lock that the next Event takes, so one more may be
	 * written.
	 */
	event_warn(events, &core_node_kind, "n2", "NoFreeFunction", "x");
	event_warn(events, &core_node_kind, "n3", "NoFreeFunction", "x");
	end();
	ck_assert_uint_eq(written(&event), 0);
	ck_assert_int_eq(fake.creates, 1);
}
END_TEST

/* The right that is missing, its object, and the Events that are written without it. */
static const struct {
	const char *verb, *plural;
	size_t written;
} rights[] = {
	{ "get", PV, 1 },
	{ "create", E, 0 },
};

START_TEST(a_missing_right_silences_the_events_that_need_it)
{
	const struct json *event = NULL;

	fake_reset();
	fake_put(PV, "{\"metadata\":{\"name\":\"pvc-1\",\"uid\":\"u-1\"},\"spec\":{\"csi\":{"
	             "\"driver\":\"" DRIVER "\",\"volumeHandle\":\"pvc-1\"}}}");
	fake_refuse(rights[_i].verb, rights[_i].plural, ERR_PERMISSION, "forbidden");
	begin(1);
	event_warn(events, &persistent_volume_kind, "pvc-1", "AttachedToOtherNode", "x");
	WAIT_UNTIL(count("failed") == 1);
	event_warn(events, &core_node_kind, "n1", "NoFreeFunction", "x");
	WAIT_UNTIL(count("ok") == 1 || !rights[_i].written);
	/* Of the kind that may not be read no further request is sent. */
	event_warn(events, &persistent_volume_kind, "pvc-2", "AttachedToOtherNode", "x");
	event_warn(events, &core_node_kind, "n2", "NoUsableDPU", "x");
	WAIT_UNTIL(count("ok") == 2 || !rights[_i].written);
	end();
	ck_assert_uint_eq(written(&event), 2 * rights[_i].written);
	ck_assert_int_eq(count("failed"), 1);
}
END_TEST

START_TEST(names_that_are_no_names_and_long_messages_do_no_harm)
{
	const struct json *event = NULL;
	char message[3000];

	fake_reset();
	memset(message, 0, sizeof(message));
	for (size_t i = 0; i + 2 < sizeof(message); i += 2)
		snprintf(message + i, 3, "\xc3\xa4");
	begin(1);
	event_warn(events, &core_node_kind, "../default/pods/x", "NoFreeFunction", "x");
	event_warn(events, &core_node_kind, "", "NoFreeFunction", "x");
	event_warn(NULL, &core_node_kind, "n1", "NoFreeFunction", "x");
	event_warn(events, &core_node_kind, "n1", "NoFreeFunction", message);
	WAIT_UNTIL(count("ok") == 1);
	end();
	ck_assert_uint_eq(written(&event), 1);
	ck_assert_uint_eq(strlen(json_str(event, "message")), 1000);
	ck_assert(utf8_valid(json_str(event, "message"), 1000));
}
END_TEST

SUITE("event_recorder", kubectl_describe_node_finds_the_event,
      an_event_about_a_volume_has_the_uid_of_its_persistent_volume,
      LOOP(a_persistent_volume_of_another_gets_no_event, ARRAY_LEN(others)),
      each_object_and_reason_has_one_event_after_a_restart_too,
      a_crowd_of_nodes_costs_one_request_at_a_time_and_the_queue_is_bounded,
      an_event_that_is_refused_is_dropped_and_no_further_one_is_tried,
      LOOP(a_missing_right_silences_the_events_that_need_it, ARRAY_LEN(rights)),
      names_that_are_no_names_and_long_messages_do_no_harm);
