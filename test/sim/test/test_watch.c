/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: their start, their events, their end. */
#include <poll.h>
#include <string.h>

#include <stdatomic.h>

#include "common/deadline.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/api/watch.h"
#include "test/sim/kinds/object.h"
#include "test/sim/test/harness.h"

#define QUICK(w) WORLD(w, "--no-dpf", "--no-fabric", "--bookmark-ms=50")

/* An open watch and what was read from it so far. */
struct open_watch {
	struct api_answer answer;
	struct str text;
};

static void watch_open(struct open_watch *s, struct sim_world *w, const char *query)
{
	char *path AUTO(free) = xasprintf(VOLUMES "?watch=1%s", query);

	str_init(&s->text, 1024 * 1024);
	s->answer = world_call(w, "GET", path, NULL);
	ck_assert_uint_eq(s->answer.code, 200);
	ck_assert_ptr_nonnull(s->answer.reply.stream);
}

static void open_watch_clear_p(struct open_watch *s)
{
	answer_clear(&s->answer);
	str_clear(&s->text);
}

/*
 * Reads one event; a new root. NULL: the end, and *ret_end (may be NULL) is 0, or -1 for a cut
 * connection.
 */
static struct json *next(struct open_watch *s, ssize_t *ret_end)
{
	char buf[4096];
	char *newline;
	struct json *event = NULL;
	struct err err = ERR_INIT;
	char *rest AUTO(free) = NULL;

	while (!(newline = strchr(s->text.ptr, '\n'))) {
		ssize_t n = watch_read(s->answer.reply.stream, buf, sizeof(buf));

		if (n <= 0) {
			if (ret_end)
				*ret_end = n;
			return NULL;
		}
		str_addn(&s->text, buf, (size_t)n);
	}
	ck_assert_int_eq(
		json_parse("event", s->text.ptr, (size_t)(newline - s->text.ptr), &event, &err), 0);
	rest = xstrdup(newline + 1);
	str_reset(&s->text);
	str_add(&s->text, rest);
	return event;
}

/* The next n events as "TYPE name ...". */
static void expect(struct open_watch *s, const char *want)
{
	struct str got AUTO(str_clear) = STR_INIT(10000);

	while (got.len < strlen(want)) {
		struct json *e AUTO(json_free) = next(s, NULL);

		ck_assert_msg(e != NULL, "ended after \"%s\"", got.ptr);
		if (!str_eq(json_str(e, "type"), "BOOKMARK"))
			str_addf(&got, "%s %s ", json_str(e, "type"),
			         object_name(json_at(e, "object")));
	}
	ck_assert_str_eq(got.ptr, want);
}

static char *version_now(struct sim_world *w)
{
	struct api_answer a AUTO(answer_clear) = world_call(w, "GET", VOLUMES "?limit=1", NULL);

	return xstrdup(json_str(a.json, "metadata.resourceVersion"));
}

START_TEST(without_a_version_it_starts_with_what_exists)
{
	QUICK(w);
	struct open_watch s AUTO(open_watch_clear);

	world_make_volume(&w, "a");
	world_make_volume(&w, "b");
	watch_open(&s, &w, "");
	world_make_volume(&w, "c");
	world_ok(&w, "PATCH", VOLUMES "/a", "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}", 200);
	world_ok(&w, "DELETE", VOLUMES "/b", NULL, 200);
	expect(&s, "ADDED a ADDED b ADDED c MODIFIED a DELETED b ");
}
END_TEST

#define INITIAL "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

START_TEST(a_bookmark_marks_the_end_of_what_exists_for_who_asks)
{
	WORLD(w, "--no-dpf", "--no-fabric");
	struct open_watch s AUTO(open_watch_clear);
	struct json *e AUTO(json_free) = NULL;
	char *rv AUTO(free) = NULL;

	world_make_volume(&w, "a");
	rv = version_now(&w);
	watch_open(&s, &w, "&allowWatchBookmarks=true" INITIAL);
	world_make_volume(&w, "b");
	expect(&s, "ADDED a ");
	e = next(&s, NULL);
	ck_assert_str_eq(json_str(e, "type"), "BOOKMARK");
	ck_assert_str_eq(json_str(e, "object.metadata.resourceVersion"), rv);
	ck_assert_str_eq(json_text(json_member(json_at(e, "object.metadata.annotations"),
	                                       "k8s.io/initial-events-end")),
	                 "true");
	expect(&s, "ADDED b ");
}
END_TEST

START_TEST(what_exists_is_sent_by_the_rules_of_the_api_server)
{
	static const struct {
		const char *what, *option, *query;
		const char *says; /* NULL: it is served */
	} rows[] = {
		{ "as asked for", "--v=0", INITIAL, NULL },
		{ "without the feature", "--no-watch-list", INITIAL,
		  "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: "
		  "sendInitialEvents is forbidden for watch unless the WatchList feature gate is "
		  "enabled" },
		{ "without a match", "--v=0", "&sendInitialEvents=true",
		  "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
		  "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" },
		{ "a match alone", "--v=0", "&resourceVersionMatch=NotOlderThan",
		  "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
		  "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
		  "provided" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		WORLD(w, "--no-dpf", "--no-fabric", rows[i].option);
		char *path AUTO(free) = xasprintf(VOLUMES "?watch=1%s", rows[i].query);
		struct api_answer a AUTO(answer_clear) = world_call(&w, "GET", path, NULL);

		ck_assert_msg(a.code == (rows[i].says ? 422 : 200), "%s: %u", rows[i].what, a.code);
		if (rows[i].says)
			ck_assert_str_eq(json_str(a.json, "message"), rows[i].says);
	}
}
END_TEST

START_TEST(with_a_version_it_shows_what_came_after)
{
	QUICK(w);
	struct open_watch s AUTO(open_watch_clear);
	char *rv AUTO(free) = NULL;
	char *query AUTO(free) = NULL;

	world_make_volume(&w, "a");
	rv = version_now(&w);
	query = xasprintf("&resourceVersion=%s", rv);
	world_make_volume(&w, "b");
	watch_open(&s, &w, query);
	world_make_volume(&w, "c");
	expect(&s, "ADDED b ADDED c ");
}
END_TEST

START_TEST(objects_come_and_go_with_the_selector)
{
	QUICK(w);
	struct open_watch labels AUTO(open_watch_clear), names AUTO(open_watch_clear);

	watch_open(&labels, &w, "&labelSelector=x=y");
	watch_open(&names, &w, "&fieldSelector=metadata.name=b");
	world_make_volume(&w, "a");
	world_make_volume(&w, "b");
	world_ok(&w, "PATCH", VOLUMES "/a", "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}", 200);
	world_ok(&w, "PATCH", VOLUMES "/a", "{\"metadata\":{\"labels\":{\"z\":\"y\"}}}", 200);
	world_ok(&w, "PATCH", VOLUMES "/a", "{\"metadata\":{\"labels\":{\"x\":null}}}", 200);
	world_ok(&w, "DELETE", VOLUMES "/a", NULL, 200);
	world_ok(&w, "DELETE", VOLUMES "/b", NULL, 200);
	expect(&labels, "ADDED a MODIFIED a DELETED a ");
	expect(&names, "ADDED b DELETED b ");
}
END_TEST

START_TEST(bookmarks_carry_the_version_of_all_that_was_seen)
{
	QUICK(w);
	struct open_watch s AUTO(open_watch_clear);
	char *rv AUTO(free) = NULL;
	struct json *e AUTO(json_free) = NULL;

	watch_open(&s, &w, "&allowWatchBookmarks=true&resourceVersion=1");
	world_ok(&w, "POST", "/api/v1/nodes",
	         "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}", 201);
	rv = version_now(&w);
	e = next(&s, NULL);
	ck_assert_str_eq(json_str(e, "type"), "BOOKMARK");
	ck_assert_str_eq(json_str(e, "object.metadata.resourceVersion"), rv);
	ck_assert_str_eq(json_str(e, "object.kind"), "DPUVolume");
}
END_TEST

START_TEST(the_time_that_was_asked_for_ends_it_with_a_bookmark)
{
	WORLD(w, "--no-dpf", "--no-fabric");
	struct open_watch s AUTO(open_watch_clear);
	ssize_t end = 42;
	struct json *e AUTO(json_free) = NULL;

	watch_open(&s, &w, "&allowWatchBookmarks=1&timeoutSeconds=1&resourceVersion=1");
	e = next(&s, NULL);
	ck_assert_str_eq(json_str(e, "type"), "BOOKMARK");
	ck_assert_ptr_null(next(&s, &end));
	ck_assert_int_eq(end, 0);
}
END_TEST

START_TEST(a_version_that_is_too_old_is_an_error_event)
{
	QUICK(w);
	struct open_watch s AUTO(open_watch_clear);
	struct json *e AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t code = 0;

	world_make_volume(&w, "a");
	world_ok(&w, "POST", "/sim/expire", NULL, 200);
	watch_open(&s, &w, "&resourceVersion=1");
	e = next(&s, NULL);
	ck_assert_str_eq(json_str(e, "type"), "ERROR");
	ck_assert_str_eq(json_str(e, "object.reason"), "Expired");
	ck_assert_int_eq(json_get_i64(e, "object.code", &code, &err), 0);
	ck_assert_int_eq(code, 410);
	ck_assert_ptr_null(next(&s, NULL));
}
END_TEST

START_TEST(faults_change_single_events)
{
	static const struct {
		/* the events about a, which is deleted, and b, which is created */
		const char *event, *want;
	} rows[] = {
		{ "late\",\"ms\":50,\"text\":\"", "DELETED a, ADDED b" },
		{ "dropped", "ADDED b" },
		{ "twice", "DELETED a, DELETED a, ADDED b" },
		{ "backwards", "DELETED a, MODIFIED a, ADDED b" },
		{ "foreign", "MODIFIED a, DELETED a, DELETED a, ADDED b" },
		{ "error", "ERROR -, ADDED b" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		WORLD(w, "--no-dpf", "--no-fabric");
		struct str seen AUTO(str_clear) = STR_INIT(1024);
		struct open_watch s AUTO(open_watch_clear);
		char *fault AUTO(free) =
			xasprintf("{\"resource\":\"dpuvolumes\",\"name\":\"^a$\",\"event\":\"%s\"}",
		                  rows[i].event);
		char *version AUTO(free) = NULL, *now AUTO(free) = NULL;

		world_make_volume(&w, "a");
		now = version_now(&w);
		version = xasprintf("&resourceVersion=%s", now);
		watch_open(&s, &w, version);
		world_ok(&w, "POST", "/sim/faults", fault, 200);
		world_ok(&w, "DELETE", VOLUMES "/a", NULL, 200);
		world_make_volume(&w, "b");
		while (!strstr(seen.ptr, "ADDED b")) {
			struct json *e AUTO(json_free) = next(&s, NULL);
			const char *name = json_str(e, "object.metadata.name");

			str_addf(&seen, "%s%s %s", seen.len ? ", " : "", json_str(e, "type"),
			         name ? name : "-");
		}
		ck_assert_str_eq(seen.ptr, rows[i].want);
	}
}
END_TEST

static void *post_faults(void *arg)
{
	struct sim_world *w = ((void **)arg)[0];
	struct timespec a_moment = { .tv_nsec = 50000000 };

	nanosleep(&a_moment, NULL);
	world_ok(w, "POST", "/sim/faults", ((void **)arg)[1], 200);
	return NULL;
}

START_TEST(faults_end_watches_that_are_open)
{
	static const struct {
		const char *fault;
		const char *type;
		ssize_t end;
	} rows[] = {
		{ "{\"resource\":\"dpuvolumes\",\"dropWatch\":true,\"times\":1}", NULL, -1 },
		{ "{\"resource\":\"dpuvolumes\",\"expireWatch\":true,\"times\":1}", "ERROR", 0 },
	};
	WORLD(w, "--no-dpf", "--no-fabric");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct open_watch s AUTO(open_watch_clear);
		void *arg[] = { &w, (void *)rows[i].fault };
		pthread_t thread;
		ssize_t end = 42;

		watch_open(&s, &w, "&resourceVersion=1");
		pthread_create(&thread, NULL, post_faults, arg);
		if (rows[i].type) {
			struct json *e AUTO(json_free) = next(&s, NULL);

			ck_assert_str_eq(json_str(e, "type"), rows[i].type);
		}
		ck_assert_ptr_null(next(&s, &end));
		ck_assert_int_eq(end, rows[i].end);
		pthread_join(thread, NULL);
	}
}
END_TEST

static atomic_bool healed;

static void *heal_soon(void *arg)
{
	struct timespec a_moment = { .tv_nsec = 100000000 };

	nanosleep(&a_moment, NULL);
	healed = true;
	world_heal(arg);
	return NULL;
}

START_TEST(a_mute_watch_brings_everything_once_it_is_healed)
{
	QUICK(w);
	struct open_watch s AUTO(open_watch_clear);
	pthread_t thread;

	watch_open(&s, &w, "");
	world_fault(&w, "{\"resource\":\"dpuvolumes\",\"muteWatch\":true}");
	world_make_volume(&w, "a");
	pthread_create(&thread, NULL, heal_soon, &w);
	expect(&s, "ADDED a ");
	ck_assert(healed);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(wrong_parameters_are_refused)
{
	static const char *const rows[] = { "&resourceVersion=x", "&timeoutSeconds=-1",
		                            "&labelSelector=a in b" };
	QUICK(w);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path AUTO(free) = xasprintf(VOLUMES "?watch=1%s", rows[i]);

		world_ok(&w, "GET", path, NULL, 400);
	}
}
END_TEST

SUITE("sim watch", without_a_version_it_starts_with_what_exists,
      a_bookmark_marks_the_end_of_what_exists_for_who_asks,
      what_exists_is_sent_by_the_rules_of_the_api_server, with_a_version_it_shows_what_came_after,
      objects_come_and_go_with_the_selector, bookmarks_carry_the_version_of_all_that_was_seen,
      the_time_that_was_asked_for_ends_it_with_a_bookmark,
      a_version_that_is_too_old_is_an_error_event, faults_change_single_events,
      faults_end_watches_that_are_open, a_mute_watch_brings_everything_once_it_is_healed,
      wrong_parameters_are_refused);
