/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for objects: how the watch continues after failures, and the states that each wait
 * receives.
 */
#include <malloc.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define LIST "GET " VOLUMES "?limit=1"
#define WATCH "GET " VOLUMES "?watch=1*"
#define EMPTY_LIST(version)                                                        \
	"{\"kind\":\"DPUVolumeList\",\"metadata\":{\"resourceVersion\":\"" version \
	"\"},\"items\":[]}"
#define META(name, uid, version)                                                     \
	"\"metadata\":{\"managedFields\":[{\"name\":\"not this\"}],\"name\":\"" name \
	"\",\"namespace\":\"ns\",\"resourceVersion\":\"" version "\",\"uid\":\"" uid "\"}"
#define OBJECT(name, uid, version, phase)                     \
	"{\"apiVersion\":\"v\",\"kind\":\"DPUVolume\"," META( \
		name, uid, version) ","                       \
				    "\"status\":{\"phase\":\"" phase "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(version) \
	EVENT("BOOKMARK", \
	      "{\"kind\":\"DPUVolume\",\"metadata\":{\"resourceVersion\":\"" version "\"}}")
#define NOT_FOUND .status = 404, .body = STATUS("NotFound", "not found")

static struct kube_wait *wait_for(struct kube_fake *f, const char *name)
{
	struct kube_wait *w = NULL;
	struct err err = ERR_INIT;
	ck_assert_int_eq(kube_wait_open(f->kube, &kind_volume, "ns", name, &w, &err), 0);
	return w;
}

/* The next result of the wait: the object's phase, "gone", or code and text of the error. */
static char *next(struct kube_wait *w, int ms)
{
	struct err err = ERR_INIT;
	struct json *object AUTO(json_free) = NULL;
	int rc = kube_wait_next(w, deadline_in_ms(ms), &object, &err);
	if (rc < 0)
		return xasprintf("%s: %s", err_code_name(err.code), err.msg);
	return rc == KUBE_ABSENT ? xstrdup("gone") : xstrdup(json_str(object, "status.phase"));
}

#define NEXT_IS(w, want)                                  \
	do {                                              \
		char *got_ AUTO(free) = next((w), 20000); \
		ck_assert_str_eq(got_, (want));           \
	} while (0)
#define NEXT_STARTS(w, ms, want)                                         \
	do {                                                             \
		char *got_ AUTO(free) = next((w), (ms));                 \
		ck_assert_msg(str_has_prefix(got_, (want)), "%s", got_); \
	} while (0)

static void no_object(struct kube_fake *f, const char *name, unsigned times)
{
	char *on AUTO(free) = xasprintf("GET " VOLUMES "/%s", name);
	char *body AUTO(free) = xasprintf(STATUS_OF("%s", "NotFound", "not found"), name);
	fake_http_on(f->server,
	             (struct fake_reply) { .on = on, .status = 404, .body = body, .times = times });
}

/* A wait whose stream is open and whose first read was answered with 404. */
static struct kube_wait *begin(struct kube_fake *f, const char *name)
{
	struct kube_wait *w;
	kube_fake_start(f, NULL);
	fake_http_on(f->server,
	             (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("100"), .times = 1 });
	no_object(f, name, 1);
	fake_http_on(f->server, (struct fake_reply) { .on = WATCH, .stream = true });
	w = wait_for(f, name);
	NEXT_IS(w, "gone");
	ck_assert(fake_http_wait_streams(f->server, WATCH, 1));
	return w;
}

START_TEST(states_come_one_after_the_other_and_only_for_awaited_names)
{
	const char *timeout;
	char *last AUTO(free) = NULL;
	struct kube_fake f;
	struct kube_wait *w = begin(&f, "a");
	char *seen AUTO(free) = fake_http_last(f.server, WATCH);
	ck_assert_ptr_nonnull(strstr(seen, "resourceVersion=100&"));
	ck_assert_ptr_nonnull(strstr(seen, "allowWatchBookmarks=true"));
	timeout = strstr(seen, "timeoutSeconds=");
	ck_assert_ptr_nonnull(timeout);
	ck_assert_int_ge(strtol(timeout + 15, NULL, 10), 240);
	ck_assert_int_le(strtol(timeout + 15, NULL, 10), 300);

	fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("b", "u2", "101", "Other")));
	fake_http_push(f.server, WATCH,
	               EVENT("ADDED", "{\"metadata\":{\"resourceVersion\":\"101\"}}"));
	fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u1", "102", "Pending")));
	NEXT_IS(w, "Pending");
	/* Two events in one piece, then one event in two pieces: the newest state is delivered. */
	fake_http_push(f.server, WATCH,
	               EVENT("MODIFIED", OBJECT("a", "u1", "103", "Half"))
	                       EVENT("MODIFIED", OBJECT("a", "u1", "104", "Bound")));
	fake_http_push(f.server, WATCH, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resou");
	fake_http_push(f.server, WATCH, "rceVersion\":\"110\"}}}\n");
	last = next(w, 20000);
	if (strcmp(last, "Half") == 0)
		NEXT_IS(w, "Bound");
	else
		ck_assert_str_eq(last, "Bound");
	NEXT_STARTS(w, 100, "DEADLINE_EXCEEDED: watch dpuvolumes.storage.dpu.nvidia.com ns/a");
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

/* The answer to a POST is a state, and the watch delivers the same one. */
START_TEST(a_state_that_the_caller_has_is_not_told_again)
{
	struct kube_fake f;
	struct kube_wait *w = begin(&f, "a");
	struct kube_wait *other = wait_for(&f, "a");

	kube_wait_seen(w, "102");
	fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u1", "102", "Pending")));
	NEXT_IS(other, "Pending");
	NEXT_STARTS(w, 50, "DEADLINE_EXCEEDED");
	fake_http_push(f.server, WATCH, EVENT("MODIFIED", OBJECT("a", "u1", "103", "Bound")));
	NEXT_IS(w, "Bound");
	NEXT_IS(other, "Bound");
	/* The event may arrive before the answer is read. */
	fake_http_push(f.server, WATCH, EVENT("MODIFIED", OBJECT("a", "u1", "104", "Again")));
	NEXT_IS(other, "Again");
	kube_wait_seen(w, "104");
	NEXT_STARTS(w, 50, "DEADLINE_EXCEEDED");
	/* States newer than the answer are kept. */
	fake_http_push(f.server, WATCH, EVENT("MODIFIED", OBJECT("a", "u1", "105", "Newer")));
	NEXT_IS(other, "Newer");
	kube_wait_seen(w, "104");
	NEXT_IS(w, "Newer");
	kube_wait_close(other);
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

/* Did an event end the wait, and not the deadline? */
static bool has_news(struct kube_wait *w, struct deadline d)
{
	kube_wait_event(w, d);
	return !deadline_passed(d);
}

START_TEST(an_event_is_waited_for_and_left_to_the_caller_that_consumes_it)
{
	struct kube_fake f;
	struct kube_wait *w = begin(&f, "a");
	struct kube_wait *other = wait_for(&f, "a");

	kube_wait_seen(w, "102");
	fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u1", "102", "Pending")));
	NEXT_IS(other, "Pending");
	ck_assert(!has_news(w, deadline_in_ms(100))); /* that state does not count */
	fake_http_push(f.server, WATCH, EVENT("MODIFIED", OBJECT("a", "u1", "103", "Bound")));
	ck_assert(has_news(w, wait_limit()));
	ck_assert(has_news(w, wait_limit()));
	NEXT_IS(w, "Bound");
	kube_wait_expect(w, "u1");
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u1", "104", "Bound")));
	ck_assert(has_news(w, wait_limit()));
	NEXT_IS(w, "gone");
	kube_wait_close(other);
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(the_first_read_is_made_after_the_question)
{
	struct kube_wait *w;
	struct kube_wait *second;
	struct kube_fake f;
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("100") });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
	w = wait_for(&f, "a");
	ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
	usleep(100000);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 0);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .body = OBJECT("a", "u1", "101", "Bound") });
	NEXT_IS(w, "Bound");
	/* A second wait on the open watch reads nothing: its caller reads or creates the object. */
	second = wait_for(&f, "a");
	fake_http_push(f.server, WATCH, EVENT("MODIFIED", OBJECT("a", "u1", "102", "Later")));
	NEXT_IS(second, "Later");
	NEXT_IS(w, "Later");
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 1);
	ck_assert_uint_eq(fake_http_count(f.server, LIST), 1);
	kube_wait_close(w);
	kube_wait_close(second);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_stream_that_ends_is_resumed_behind_the_last_event)
{
	static const struct {
		const char *what, *event, *version;
		bool cut; /* the resume point is verified, by a second list */
	} rows[] = {
		{ "ended after an event", EVENT("ADDED", OBJECT("x", "u", "150", "p")),
		  "resourceVersion=150&", false },
		{ "cut after an event", EVENT("ADDED", OBJECT("x", "u", "151", "p")),
		  "resourceVersion=151&", true },
		{ "cut after a bookmark", BOOKMARK("152"), "resourceVersion=152&", true },
		{ "cut in the middle of an event", "{\"type\":\"ADDED\",\"obj",
		  "resourceVersion=149&", true },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *seen AUTO(free) = NULL;
		struct kube_fake f;
		struct kube_wait *w = begin(&f, "a");
		/* One piece, an awaited event first: when it is delivered, the rest has arrived. */
		char *piece AUTO(free) = xasprintf(
			EVENT("ADDED", OBJECT("a", "u1", "149", "Early")) "%s", rows[i].event);
		fake_http_push(f.server, WATCH, piece);
		NEXT_IS(w, "Early");
		fake_http_forget(f.server);
		fake_http_on(f.server,
		             (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("152") });
		fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
		if (rows[i].cut)
			fake_http_cut_streams(f.server, WATCH);
		else
			fake_http_end_streams(f.server, WATCH);
		ck_assert_msg(fake_http_wait(f.server, WATCH, 2), "%s", rows[i].what);
		seen = fake_http_last(f.server, WATCH);
		ck_assert_msg(strstr(seen, rows[i].version) != NULL, "%s: %s", rows[i].what, seen);
		ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
		fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u1", "160", "Bound")));
		NEXT_IS(w, "Bound");
		ck_assert_uint_eq(fake_http_count(f.server, LIST), rows[i].cut ? 2 : 1);
		ck_assert_int_eq(metric_value(METRIC_WATCH_OPEN, LABELS("dpuvolumes")), 1);
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
	ck_assert_int_eq(metric_value(METRIC_WATCH_RESTARTS, LABELS("dpuvolumes", "ended")), 1);
	ck_assert_int_eq(metric_value(METRIC_WATCH_RESTARTS, LABELS("dpuvolumes", "unreachable")),
	                 3);
	ck_assert_int_ge(metric_value(METRIC_WATCH_EVENTS, LABELS("dpuvolumes")), 8);
	ck_assert_int_ge(metric_value(METRIC_API_REQUESTS, LABELS("list", "dpuvolumes", "200")), 4);
}
END_TEST

START_TEST(after_a_lost_resume_point_exactly_the_awaited_names_are_read)
{
	static const char expired[] = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\","
				      "\"metadata\":{},\"code\":410,\"reason\":\"Expired\"}}\n";
	static const char internal[] =
		"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,"
		"\"message\":\"etcd is away\"}}\n";
	static const struct {
		const char *what, *event;
		bool http410;
	} rows[] = {
		{ "410 as an event", expired, false },
		{ "410 as the answer", NULL, true },
		{ "another ERROR event", internal, false },
		{ "a line that is not an event", "garbage\n", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *seen AUTO(free) = NULL;
		struct kube_fake f;
		struct kube_wait *w = begin(&f, "a"), *other = wait_for(&f, "b");
		fake_http_forget(f.server);
		fake_http_on(f.server,
		             (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("900") });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .body = OBJECT("a", "u1", "899", "Bound") });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/b",
		                                   .status = 404,
		                                   .body = STATUS_OF("b", "NotFound", "") });
		if (rows[i].http410)
			fake_http_on(f.server,
			             (struct fake_reply) { .on = WATCH,
			                                   .status = 410,
			                                   .body = "{\"kind\":\"Status\"}",
			                                   .times = 1 });
		fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
		if (rows[i].http410)
			fake_http_cut_streams(f.server, WATCH);
		else
			fake_http_push(f.server, WATCH, rows[i].event);
		NEXT_IS(w, "Bound");
		NEXT_IS(other, "gone");
		ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
		seen = fake_http_last(f.server, WATCH);
		ck_assert_msg(strstr(seen, "resourceVersion=900&") != NULL, "%s: %s", rows[i].what,
		              seen);
		ck_assert_uint_eq(fake_http_unexpected(f.server), 0);
		kube_wait_close(w);
		kube_wait_close(other);
		kube_fake_stop(&f);
	}
}
END_TEST

START_TEST(a_deletion_is_told_by_its_event_when_the_uid_is_known)
{
	struct kube_fake f;
	struct kube_wait *w = begin(&f, "a");
	kube_wait_expect(w, "u2");
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u1", "101", "Old")));
	fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u2", "102", "New")));
	NEXT_IS(w, "New");
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u1", "101", "Old")));
	NEXT_STARTS(w, 100, "DEADLINE_EXCEEDED");
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u2", "103", "New")));
	NEXT_IS(w, "gone");
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 1);
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_read_that_is_older_than_the_uid_says_nothing)
{
	struct kube_fake f;
	struct kube_wait *w = begin(&f, "a");
	struct json *ret = NULL;
	struct err err = ERR_INIT;
	fake_http_on(f.server,
	             (struct fake_reply) {
			     .on = "GET " VOLUMES "/a", .delay_ms = 500, NOT_FOUND, .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .body = OBJECT("a", "u2", "105", "New") });
	fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u1", "100", "Old")));
	NEXT_IS(w, "Old");
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u1", "101", "Old")));
	ck_assert_int_eq(kube_wait_next(w, deadline_in_ms(200), &ret, &err), -1);
	ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/a", 2));
	/* Now the object is created, and only then the answer to the read arrives. */
	kube_wait_expect(w, "u2");
	NEXT_IS(w, "New");
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(what_is_not_the_object_is_no_state_of_it)
{
	static const struct {
		const char *what, *body;
		int status;
	} rows[] = {
		{ "null", "null", 200 },
		{ "an array", "[]", 200 },
		{ "an empty object", "{}", 200 },
		{ "another object", OBJECT("b", "u1", "101", "Wrong"), 200 },
		{ "without a uid", OBJECT("a", "", "101", "Wrong"), 200 },
		{ "another namespace",
		  "{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"a\",\"namespace\":\"x\",\"uid\":\"u\"},"
		  "\"status\":{\"phase\":\"Wrong\"}}",
		  200 },
		{ "another kind",
		  "{\"kind\":\"Secret\"," META("a", "u1",
		                               "101") ",\"status\":{\"phase\":\"Wrong\"}}",
		  200 },
		{ "a page", "<html>", 200 },
		{ "a proxy's 404", "<html>", 404 },
		{ "another object is not there", STATUS_OF("b", "NotFound", "no b"), 404 },
		{ "a proxy's 403", "<html>", 403 },
		{ "one 403", STATUS("Forbidden", "no"), 403 },
		{ "one 401", STATUS("Unauthorized", "no"), 401 },
		{ "not served once", "404 page not found", 404 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_fake f;
		struct kube_wait *w = begin(&f, "a");
		char *got AUTO(free) = NULL;
		fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                             .status = rows[i].status,
		                                             .body = rows[i].body,
		                                             .times = 1 });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .body = OBJECT("a", "u2", "105", "New") });
		/* Asks for a read. */
		fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u1", "101", "Old")));
		got = next(w, 20000);
		ck_assert_msg(str_eq(got, "New"), "%s: %s", rows[i].what, got);
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

START_TEST(a_deletion_without_known_uid_is_confirmed_by_a_read)
{
	struct kube_fake f;
	struct kube_wait *w = begin(&f, "a");
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .body = OBJECT("a", "u2", "105", "New"),
	                                             .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a", NOT_FOUND });
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u1", "101", "Old")));
	NEXT_IS(w, "New");
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u2", "106", "New")));
	NEXT_IS(w, "gone");
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(an_event_that_is_no_json_after_all_is_replaced_by_a_read)
{
	static const char *const rows[] = { "tru", "\"\\x\"" };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_fake f;
		struct kube_wait *w = begin(&f, "a");
		char *event AUTO(free) = xasprintf(
			EVENT("MODIFIED", "{" META("a", "u1", "101") ",\"status\":%s}"), rows[i]);
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .body = OBJECT("a", "u1", "101", "Bound") });
		fake_http_push(f.server, WATCH, event);
		NEXT_IS(w, "Bound");
		fake_http_push(f.server, WATCH,
		               EVENT("MODIFIED", OBJECT("a", "u1", "102", "Later")));
		NEXT_IS(w, "Later");
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

/* No read is made: the server has no answer for one. */
START_TEST(an_event_is_taken_whatever_its_texts_hold)
{
	static const char *const rows[] = { "\xff", "\\u0000", "\\ud800", "\x01" };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_fake f;
		struct kube_wait *w = begin(&f, "a");
		char *event AUTO(free) = xasprintf(
			EVENT("MODIFIED", "{" META("a", "u1", "101") ",\"%s\":\"%s\",\"status\":{"
		                                                     "\"phase\":\"Bound\"}}"),
			rows[i], rows[i]);
		fake_http_push(f.server, WATCH, event);
		NEXT_IS(w, "Bound");
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

/* The answer of a read and a later event arrive over different streams, in any order. */
START_TEST(a_read_that_an_event_overtakes_is_dropped)
{
	static const struct fake_reply late[] = {
		{ .on = "GET " VOLUMES "/a",
		  .delay_ms = 300,
		  .body = OBJECT("a", "u1", "101", "Older") },
		{ .on = "GET " VOLUMES "/a", .delay_ms = 300, NOT_FOUND },
	};
	for (size_t i = 0; i < ARRAY_LEN(late); i++) {
		struct kube_wait *w;
		struct kube_fake f;
		struct json *ret = NULL;
		struct err err = ERR_INIT;
		kube_fake_start(&f, NULL);
		fake_http_on(f.server,
		             (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("100") });
		fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
		fake_http_on(f.server, late[i]);
		w = wait_for(&f, "a");
		ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
		ck_assert_int_eq(kube_wait_next(w, deadline_in_ms(50), &ret, &err), -1);
		ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/a", 1));
		fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u1", "102", "Newer")));
		usleep(500000);
		NEXT_IS(w, "Newer");
		NEXT_STARTS(w, 50, "DEADLINE_EXCEEDED");
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

START_TEST(what_does_not_pass_is_told_and_tried_again_for_the_next_who_asks)
{
	static const struct {
		const char *what, *body, *type, *want;
		int status;
	} rows[] = {
		{ "not allowed", STATUS("Forbidden", "no list for you"), NULL,
		  "PERMISSION_DENIED: not allowed to list dpuvolumes (API group "
		  "storage.dpu.nvidia.com) in namespace ns: no list for you",
		  403 },
		{ "not served", "404 page not found", "text/plain",
		  "FAILED_PRECONDITION: list dpuvolumes.storage.dpu.nvidia.com ns: the API server "
		  "does "
		  "not serve dpuvolumes of API group storage.dpu.nvidia.com/v1alpha1",
		  404 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_wait *w;
		struct kube_fake f;
		kube_fake_start(&f, NULL);
		fake_http_on(f.server, (struct fake_reply) { .on = LIST,
		                                             .status = rows[i].status,
		                                             .type = rows[i].type,
		                                             .body = rows[i].body });
		w = wait_for(&f, "a");
		NEXT_STARTS(w, 20000, rows[i].want);
		fake_http_forget(f.server);
		fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
		fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .body = OBJECT("a", "u1", "1", "Bound") });
		NEXT_IS(w, "Bound");
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

START_TEST(what_is_refused_once_is_asked_for_again_and_nobody_is_told)
{
	static const struct fake_reply rows[] = {
		{ .on = LIST, .status = 403, .body = STATUS("Forbidden", "no"), .times = 1 },
		{ .on = LIST, .status = 403, .body = "<html>", .times = 3 },
		{ .on = LIST, .status = 401, .body = STATUS("Unauthorized", "no"), .times = 2 },
		{ .on = LIST, .status = 404, .body = "404 page not found", .times = 1 },
		{ .on = LIST, .status = 404, .body = "<html>", .times = 3 },
		{ .on = WATCH, .status = 403, .body = STATUS("Forbidden", "no"), .times = 1 },
		{ .on = WATCH, .status = 404, .body = "404 page not found", .times = 1 },
		{ .on = WATCH, .status = 401, .body = STATUS("Unauthorized", "no"), .times = 2 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *got AUTO(free) = NULL;
		struct kube_wait *w;
		struct kube_fake f;
		kube_fake_start(&f, NULL);
		fake_http_on(f.server, rows[i]);
		fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
		fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .body = OBJECT("a", "u1", "1", "Bound") });
		w = wait_for(&f, "a");
		got = next(w, 20000);
		ck_assert_msg(str_eq(got, "Bound"), "row %zu: %s", i, got);
		NEXT_STARTS(w, 100, "DEADLINE_EXCEEDED");
		ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

START_TEST(a_watch_that_may_not_be_opened_names_the_verb)
{
	struct kube_wait *w;
	struct kube_fake f;
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH,
	                                             .status = 403,
	                                             .body = STATUS("Forbidden", "no") });
	w = wait_for(&f, "a");
	NEXT_STARTS(w, 20000, "PERMISSION_DENIED: not allowed to watch dpuvolumes");
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(what_passes_is_waited_for)
{
	static const struct fake_reply rows[] = {
		{ .on = LIST, .status = 503, .body = "{}", .times = 3 },
		{ .on = LIST, .status = 429, .body = "{}", .times = 3 },
		{ .on = LIST, .cut = true, .times = 3 },
		{ .on = WATCH, .status = 429, .body = "{}", .times = 2 },
		{ .on = WATCH, .status = 500, .body = "{}", .times = 5 },
		{ .on = "GET " VOLUMES "/a", .status = 500, .body = "{}", .times = 3 },
		{ .on = LIST, .status = 401, .body = "{}", .times = 1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_wait *w;
		struct kube_fake f;
		kube_fake_start(&f, NULL);
		fake_http_on(f.server, rows[i]);
		fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
		fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .body = OBJECT("a", "u1", "1", "Bound") });
		w = wait_for(&f, "a");
		NEXT_IS(w, "Bound");
		ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
		fake_http_push(f.server, WATCH, EVENT("MODIFIED", OBJECT("a", "u1", "2", "Later")));
		NEXT_IS(w, "Later");
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

/*
 * With the default pauses. The maximum number of requests in two seconds, however busy the machine
 * is.
 */
START_TEST(a_server_is_not_asked_without_a_pause_whatever_it_says)
{
	static const char old[] = "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
	static const char expired[] = BOOKMARK(
		"5") "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n";
	static const struct {
		const char *what, *on;
		struct fake_reply reply;
	} rows[] = {
		{ "a list, Retry-After in the past",
		  LIST,
		  { .on = LIST, .status = 503, .headers = old, .body = "{}" } },
		{ "a stream, Retry-After in the past",
		  WATCH,
		  { .on = WATCH, .status = 503, .headers = old, .body = "{}" } },
		{ "a read, Retry-After in the past",
		  "GET " VOLUMES "/a",
		  { .on = "GET " VOLUMES "/a", .status = 503, .headers = old, .body = "{}" } },
		{ "a resume point that expires after each event",
		  LIST,
		  { .on = WATCH, .body = expired } },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_tuning defaults = { 0 };
		struct kube_wait *w;
		struct kube_fake f;
		unsigned asked;
		kube_fake_start(&f, &defaults);
		fake_http_on(f.server, rows[i].reply);
		fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
		fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a", NOT_FOUND });
		w = wait_for(&f, "a");
		free(next(w, 2000));
		ck_assert(fake_http_wait(f.server, rows[i].on, 2));
		free(next(w, 2000));
		asked = fake_http_count(f.server, rows[i].on);
		ck_assert_msg(asked <= 30, "%s: asked %u times", rows[i].what, asked);
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

START_TEST(a_watch_refused_by_a_server_that_has_just_started_is_asked_for_again)
{
	struct kube_wait *w;
	struct kube_fake f;
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	fake_http_on(f.server,
	             (struct fake_reply) { .on = WATCH, .status = 503, .body = "{}", .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH,
	                                             .status = 403,
	                                             .body = STATUS("Forbidden", "no"),
	                                             .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .body = OBJECT("a", "u1", "1", "Bound") });
	w = wait_for(&f, "a");
	NEXT_IS(w, "Bound");
	NEXT_STARTS(w, 300, "DEADLINE_EXCEEDED");
	ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_resume_point_lost_after_failures_is_listed_without_a_pause)
{
	struct kube_wait *w;
	static const char expired[] = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\","
				      "\"metadata\":{},\"code\":410,\"reason\":\"Expired\"}}\n";
	struct kube_fake f;
	struct kube_tuning minute = { .watch_backoff_ms = 60000, .watch_backoff_most_ms = 60000 };
	kube_fake_start(&f, &minute);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	/* A stream that ends at once counts as a failure: after the next one there is a pause. */
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .body = "", .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .body = expired, .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .body = OBJECT("a", "u1", "1", "Bound") });
	w = wait_for(&f, "a");
	NEXT_IS(w, "Bound");
	ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
	ck_assert_uint_eq(fake_http_count(f.server, LIST), 2);
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_server_that_answers_again_ends_the_pause_of_a_watch)
{
	struct kube_wait *w;
	struct kube_fake f;
	struct kube_tuning minute = { .watch_backoff_ms = 60000, .watch_backoff_most_ms = 60000 };
	struct json *object AUTO(json_free) = NULL;
	char *got AUTO(free) = NULL;
	struct err err = ERR_INIT;
	kube_fake_start(&f, &minute);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .cut = true, .times = 1 });
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .body = OBJECT("a", "u1", "1", "Bound") });
	w = wait_for(&f, "a");
	NEXT_STARTS(w, 300, "DEADLINE_EXCEEDED");
	ck_assert(fake_http_wait(f.server, LIST, 1));
	/*
	 * Far less than a minute. Repeated, because the client may notice the end of the list only
	 * after the answer to the first kube_get().
	 */
	for (int i = 0; i < 20 && !str_eq(got, "Bound"); i++) {
		json_free(TAKE(object));
		ck_assert_int_eq(
			kube_get(f.kube, &kind_volume, "ns", "a", wait_limit(), &object, &err), 0);
		free(got);
		got = next(w, 1000);
	}
	ck_assert_str_eq(got, "Bound");
	ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_watch_that_brings_nothing_is_not_the_end_of_news)
{
	static const struct {
		const char *what;
		struct fake_reply list, watch;
	} rows[] = {
		{ "silent",
		  { .on = LIST, .body = EMPTY_LIST("1") },
		  { .on = WATCH, .stream = true } },
		{ "ends at once",
		  { .on = LIST, .body = EMPTY_LIST("1") },
		  { .on = WATCH, .body = "" } },
		{ "no list",
		  { .on = LIST, .status = 503, .body = "{}" },
		  { .on = WATCH, .body = "" } },
		{ "no stream",
		  { .on = LIST, .body = EMPTY_LIST("1") },
		  { .on = WATCH, .status = 500, .body = "{}" } },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_wait *w;
		struct kube_fake f;
		struct kube_tuning t = { .watch_backoff_ms = 60000,
			                 .watch_backoff_most_ms = 60000,
			                 .resync_ms = 100 };
		kube_fake_start(&f, &t);
		fake_http_on(f.server, rows[i].list);
		fake_http_on(f.server, rows[i].watch);
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .times = 2,
		                                   .body = OBJECT("a", "u1", "1", "Pending") });
		fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                             .times = 1,
		                                             .status = 403,
		                                             .body = "{}" });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a",
		                                   .times = 2,
		                                   .body = OBJECT("a", "u1", "2", "Bound") });
		fake_http_on(f.server,
		             (struct fake_reply) { .on = "GET " VOLUMES "/a", NOT_FOUND });
		w = wait_for(&f, "a");
		NEXT_IS(w, "Pending");
		NEXT_IS(w, "Bound");
		NEXT_IS(w, "gone");
		kube_wait_close(w);
		kube_fake_stop(&f);
	}
}
END_TEST

#define WAITING 40

START_TEST(few_of_many_that_wait_are_read_per_second)
{
	struct kube_wait *waits[WAITING], *first;
	struct kube_fake f;
	struct kube_tuning t = { .resync_ms = 100 };
	unsigned reads;
	int64_t before, took_ms;
	kube_fake_start(&f, &t);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
	no_object(&f, "first", 0);
	first = wait_for(&f, "first");
	NEXT_IS(first, "gone");
	for (unsigned i = 0; i < WAITING; i++) {
		char *name AUTO(free) = xasprintf("v-%u", i);
		no_object(&f, name, 0);
		waits[i] = wait_for(&f, name);
		free(next(waits[i], 0));
	}
	ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/*", 5));
	before = monotonic_ns();
	reads = fake_http_count(f.server, "GET " VOLUMES "/*");
	sleep(3);
	reads = fake_http_count(f.server, "GET " VOLUMES "/*") - reads;
	took_ms = (monotonic_ns() - before) / 1000000;
	/* Reads are limited, however busy the machine is: ten a second, plus one tick. */
	ck_assert_msg(reads <= took_ms / 100 + 20, "%u reads in %d ms", reads, (int)took_ms);
	/* Every wait gets its turn, including the one that has waited for the longest. */
	ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/v-0", 1));
	ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/v-39", 1));
	for (unsigned i = 0; i < WAITING; i++)
		kube_wait_close(waits[i]);
	kube_wait_close(first);
	kube_fake_stop(&f);
}
END_TEST

/* ---- many waits whose resume point is lost ---- */

#define EXPIRED "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n"
#define AT_ONCE 16 /* concurrent reads, at most */
#define MANY 300

/* The tests below count reads: none is made only because no event arrived for long. */
static const struct kube_tuning no_looks = {
	.watch_backoff_ms = 20,
	.watch_backoff_most_ms = 100,
	.mistake_ms = 20,
	.resync_ms = 3600 * 1000,
};

static void bound_object(struct kube_fake *f, const char *name, int delay_ms)
{
	char *on AUTO(free) = xasprintf("GET " VOLUMES "/%s", name);
	char *body AUTO(free) = xasprintf(OBJECT("%s", "u1", "899", "Bound"), name);
	fake_http_on(f->server,
	             (struct fake_reply) { .on = on, .body = body, .delay_ms = delay_ms });
}

/* Waits for v-0, v-1, ..., which are being awaited; each is Bound, and a read takes this long. */
static void wait_for_many(struct kube_fake *f, struct kube_wait **ret, unsigned n, int delay_ms)
{
	for (unsigned i = 0; i < n; i++) {
		char *name AUTO(free) = xasprintf("v-%u", i);
		bound_object(f, name, delay_ms);
		ret[i] = wait_for(f, name);
		free(next(ret[i], 0));
	}
}

/* All stay open until the last has its result: none makes space for the others. */
static void many_are_bound(struct kube_wait **waits, unsigned n)
{
	for (unsigned i = n; i > 0; i--)
		NEXT_IS(waits[i - 1], "Bound");
	for (unsigned i = 0; i < n; i++)
		kube_wait_close(waits[i]);
}

/* A wait for "first", which is Bound and whose stream is open. */
static struct kube_wait *begin_without_looks(struct kube_fake *f)
{
	struct kube_wait *w;
	kube_fake_start(f, &no_looks);
	fake_http_on(f->server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("100") });
	fake_http_on(f->server, (struct fake_reply) { .on = WATCH, .stream = true });
	bound_object(f, "first", 0);
	w = wait_for(f, "first");
	NEXT_IS(w, "Bound");
	ck_assert(fake_http_wait_streams(f->server, WATCH, 1));
	return w;
}

/* The maximum number of requests in the engine, until this many reads have reached the server. */
static unsigned most_until(struct kube_fake *f, unsigned reads)
{
	unsigned most = 0;
	while (fake_http_count(f->server, "GET " VOLUMES "/v-*") < reads) {
		struct http_stats stats = http_stats(f->kube->http);
		unsigned now = stats.in_flight + stats.queued;
		most = now > most ? now : most;
		usleep(1000);
	}
	return most;
}

START_TEST(few_reads_after_a_lost_resume_point_run_at_once_and_callers_do_not_wait)
{
	struct kube_wait *waits[MANY], *first;
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	struct kube_fake f;
	unsigned most, before;
	first = begin_without_looks(&f);
	wait_for_many(&f, waits, MANY, 100);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/callers",
	                                             .body = OBJECT("callers", "u", "1", "p") });
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/v-*"), 0);
	fake_http_push(f.server, WATCH, EXPIRED);
	most = most_until(&f, 2 * AT_ONCE);
	ck_assert_int_eq(
		kube_get(f.kube, &kind_volume, "ns", "callers", wait_limit(), &object, &err), 0);
	before = fake_http_count(f.server, "GET " VOLUMES "/v-*");
	ck_assert_msg(most <= AT_ONCE + 1 && before <= MANY / 2,
	              "%u requests at once, %u reads before the caller's", most, before);
	many_are_bound(waits, MANY);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/v-*"), MANY);
	kube_wait_close(first);
	kube_fake_stop(&f);
}
END_TEST

/* Between two losses a quarter of them can be read. */
START_TEST(all_waits_are_read_though_the_resume_point_is_lost_repeatedly)
{
	struct kube_wait *waits[MANY / 3];
	struct kube_fake f;
	kube_fake_start(&f, &no_looks);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .body = BOOKMARK("5") EXPIRED });
	wait_for_many(&f, waits, ARRAY_LEN(waits), 50);
	many_are_bound(waits, ARRAY_LEN(waits));
	ck_assert(fake_http_wait(f.server, LIST, 3));
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_read_older_than_a_lost_resume_point_is_not_the_last)
{
	struct kube_wait *waits[3 * AT_ONCE], *first, *w;
	char *got AUTO(free) = NULL;
	struct kube_fake f;
	first = begin_without_looks(&f);
	w = wait_for(&f, "a");
	free(next(w, 0));
	wait_for_many(&f, waits, ARRAY_LEN(waits), 200);
	fake_http_on(f.server,
	             (struct fake_reply) {
			     .on = "GET " VOLUMES "/a", .delay_ms = 800, NOT_FOUND, .times = 1 });
	bound_object(&f, "a", 0);
	fake_http_push(f.server, WATCH, EXPIRED);
	ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/a", 1));
	ck_assert(fake_http_wait_streams(f.server, WATCH, 1));
	/*
	 * The object is created between the read and the new resume point, so no event reports it.
	 * When the answer arrives, the next read is not due yet.
	 */
	fake_http_push(f.server, WATCH, BOOKMARK("901") EXPIRED);
	got = next(w, 20000);
	if (str_eq(got, "gone"))
		NEXT_IS(w, "Bound");
	else
		ck_assert_str_eq(got, "Bound");
	many_are_bound(waits, ARRAY_LEN(waits));
	kube_wait_close(w);
	kube_wait_close(first);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_read_that_was_refused_is_made_again_when_its_caller_asks_and_not_before)
{
	struct kube_fake f;
	struct kube_wait *first = begin_without_looks(&f);
	struct kube_wait *w = wait_for(&f, "a"), *other = wait_for(&f, "b");
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a",
	                                             .status = 403,
	                                             .body = STATUS("Forbidden", "no"),
	                                             .times = 2 });
	bound_object(&f, "a", 0);
	bound_object(&f, "b", 0);
	free(next(w, 0));
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("a", "u1", "101", "Old")));
	/* The caller does something else. */
	ck_assert(fake_http_wait(f.server, "GET " VOLUMES "/a", 2));
	usleep(200000);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 2);
	NEXT_STARTS(w, 20000, "PERMISSION_DENIED");
	/* Reads of others end. */
	fake_http_push(f.server, WATCH, EVENT("DELETED", OBJECT("b", "u1", "102", "Old")));
	NEXT_IS(other, "Bound");
	usleep(200000);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 2);
	NEXT_IS(w, "Bound");
	kube_wait_close(w);
	kube_wait_close(other);
	kube_wait_close(first);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(out_of_time_says_why_there_is_no_watch)
{
	char *got AUTO(free) = NULL;
	struct kube_wait *w;
	struct kube_fake f;
	kube_fake_start(&f, NULL);
	kube_fake_config(&f, "http://127.0.0.1:1", "", "    token: t\n");
	w = wait_for(&f, "a");
	got = next(w, 400);
	ck_assert_msg(str_has_prefix(got, "DEADLINE_EXCEEDED: watch dpuvolumes") &&
	                      strstr(got, "Connection refused"),
	              "%s", got);
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_silent_watch_is_opened_again)
{
	struct kube_wait *w;
	struct kube_fake f;
	struct kube_tuning t = { .watch_silence_ms = 200, .watch_backoff_ms = 20 };
	kube_fake_start(&f, &t);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a", NOT_FOUND });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .stream = true });
	w = wait_for(&f, "a");
	NEXT_IS(w, "gone");
	ck_assert(fake_http_wait(f.server, WATCH, 3));
	ck_assert_uint_ge(http_stats(f.kube->http).epochs, 3);
	/* The resume point is verified each time; it is unchanged, so no object is re-read. */
	ck_assert_uint_ge(fake_http_count(f.server, LIST), 3);
	ck_assert_uint_eq(fake_http_count(f.server, "GET " VOLUMES "/a"), 1);
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

/* Before the first answer, silence has another limit. */
START_TEST(a_watch_that_is_not_answered_is_asked_for_again)
{
	struct kube_wait *w;
	struct kube_fake f;
	struct kube_tuning t = { .attempt_ms = 300, .watch_backoff_ms = 20 };
	kube_fake_start(&f, &t);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .body = EMPTY_LIST("1") });
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "/a", NOT_FOUND });
	fake_http_on(f.server, (struct fake_reply) { .on = WATCH, .hang = true });
	w = wait_for(&f, "a");
	NEXT_IS(w, "gone");
	ck_assert(fake_http_wait(f.server, WATCH, 2));
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

struct wait_caller {
	bool for_news; /* before what they are */
	struct kube_wait *wait;
	struct cancel cancel;
	char *got;
};

static void *wait_thread(void *arg)
{
	struct wait_caller *w = arg;
	struct json *object = NULL;
	struct err err = ERR_INIT;
	struct deadline d = deadline_never();
	int rc;
	d.cancel = &w->cancel;
	if (w->for_news)
		kube_wait_event(w->wait, d);
	rc = kube_wait_next(w->wait, d, &object, &err);
	w->got = xasprintf("%d %s", rc, err_code_name(err.code));
	json_free(object);
	kube_wait_close(w->wait);
	return NULL;
}

START_TEST(cancelling_and_freeing_wake_those_who_wait)
{
	struct wait_caller cancelled = { .for_news = _i, .cancel = CANCEL_INIT };
	struct wait_caller freed = { .for_news = _i, .cancel = CANCEL_INIT };
	struct kube_fake f;
	pthread_t a, b;
	kube_wait_close(begin(&f, "x"));
	cancelled.wait = wait_for(&f, "a");
	freed.wait = wait_for(&f, "b");
	pthread_create(&a, NULL, wait_thread, &cancelled);
	pthread_create(&b, NULL, wait_thread, &freed);
	usleep(50000);
	cancel_set(&cancelled.cancel);
	pthread_join(a, NULL);
	ck_assert_str_eq(cancelled.got, "-1 CANCELLED");
	f.kube = kube_free(f.kube);
	pthread_join(b, NULL);
	ck_assert_str_eq(freed.got, "-1 CANCELLED");
	free(cancelled.got);
	free(freed.got);
	cancel_destroy(&cancelled.cancel);
	cancel_destroy(&freed.cancel);
	kube_fake_stop(&f);
}
END_TEST

static char *padded_events(unsigned first, unsigned n)
{
	struct str text AUTO(str_clear) = STR_INIT(64 * 1024 * 1024);
	char pad[2001];
	memset(pad, 'x', 2000);
	pad[2000] = 0;
	for (unsigned i = first; i < first + n; i++)
		str_addf(&text,
		         "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"v-%u\",\"uid\":"
		         "\"u\","
		         "\"resourceVersion\":\"%u\"},\"pad\":\"%s\"}}\n",
		         i, 1000 + i, pad);
	return str_take(&text);
}

START_TEST(memory_does_not_grow_with_objects_nobody_waits_for)
{
	size_t before;
	size_t after;
	struct kube_fake f;
	struct kube_wait *w = begin(&f, "a");
	char *warm AUTO(free) = padded_events(0, 200);
	char *events AUTO(free) = padded_events(200, 200);
	fake_http_push(f.server, WATCH, warm);
	fake_http_push(f.server, WATCH, EVENT("ADDED", OBJECT("a", "u1", "1", "Warm")));
	NEXT_IS(w, "Warm");
	before = mallinfo2().uordblks;
	for (int i = 0; i < 50; i++) /* 10,000 objects, 20 MB */
		fake_http_push(f.server, WATCH, events);
	fake_http_push(f.server, WATCH, EVENT("MODIFIED", OBJECT("a", "u1", "2", "Done")));
	NEXT_IS(w, "Done");
	after = mallinfo2().uordblks;
	ck_assert_msg(after < before + 256 * 1024, "%zu bytes more", after - before);
	kube_wait_close(w);
	kube_fake_stop(&f);
}
END_TEST

static char logged[4000];

static void keep_log(void *arg, const char *line)
{
	size_t n = strlen(logged);
	(void)arg;
	snprintf(logged + n, sizeof(logged) - n, "%s\n", line);
}

START_TEST(repeated_failures_are_logged_once_and_tokens_never)
{
	struct kube_wait *w;
	const char *first;
	struct kube_fake f;
	log_redirect(keep_log, NULL);
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = LIST, .status = 503, .body = "{}" });
	w = wait_for(&f, "a");
	ck_assert(fake_http_wait(f.server, LIST, 6));
	kube_wait_close(w);
	kube_fake_stop(&f);
	log_redirect(NULL, NULL);
	first = strstr(logged, "list dpuvolumes");
	ck_assert_msg(first && !strstr(first + 1, "list dpuvolumes"), "%s", logged);
	ck_assert_ptr_null(strstr(logged, "token-1"));
}
END_TEST

SUITE_TIMEOUT("kube_wait", 60, states_come_one_after_the_other_and_only_for_awaited_names,
              a_state_that_the_caller_has_is_not_told_again,
              an_event_is_waited_for_and_left_to_the_caller_that_consumes_it,
              the_first_read_is_made_after_the_question,
              a_stream_that_ends_is_resumed_behind_the_last_event,
              after_a_lost_resume_point_exactly_the_awaited_names_are_read,
              a_deletion_is_told_by_its_event_when_the_uid_is_known,
              a_deletion_without_known_uid_is_confirmed_by_a_read,
              a_read_that_is_older_than_the_uid_says_nothing,
              what_is_not_the_object_is_no_state_of_it,
              what_is_refused_once_is_asked_for_again_and_nobody_is_told,
              an_event_that_is_no_json_after_all_is_replaced_by_a_read,
              an_event_is_taken_whatever_its_texts_hold, a_read_that_an_event_overtakes_is_dropped,
              what_does_not_pass_is_told_and_tried_again_for_the_next_who_asks,
              a_watch_that_may_not_be_opened_names_the_verb, what_passes_is_waited_for,
              a_server_is_not_asked_without_a_pause_whatever_it_says,
              a_watch_refused_by_a_server_that_has_just_started_is_asked_for_again,
              a_resume_point_lost_after_failures_is_listed_without_a_pause,
              a_server_that_answers_again_ends_the_pause_of_a_watch,
              a_watch_that_brings_nothing_is_not_the_end_of_news,
              few_of_many_that_wait_are_read_per_second,
              few_reads_after_a_lost_resume_point_run_at_once_and_callers_do_not_wait,
              all_waits_are_read_though_the_resume_point_is_lost_repeatedly,
              a_read_older_than_a_lost_resume_point_is_not_the_last,
              a_read_that_was_refused_is_made_again_when_its_caller_asks_and_not_before,
              out_of_time_says_why_there_is_no_watch, a_silent_watch_is_opened_again,
              a_watch_that_is_not_answered_is_asked_for_again,
              LOOP(cancelling_and_freeing_wake_those_who_wait, 2),
              memory_does_not_grow_with_objects_nobody_waits_for,
              repeated_failures_are_logged_once_and_tokens_never);
