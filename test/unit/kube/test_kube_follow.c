/* SPDX-License-Identifier: Apache-2.0 */
/* Following a collection: the order of events, by streams and by pages, after failures. */
#include "kube/kube_follow.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "kube/kube_event.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define FULL "GET " VOLUMES "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true*"
#define FROM(version) \
	"GET " VOLUMES "?watch=1&allowWatchBookmarks=true&resourceVersion=" version "*"
/* Verifies a resume point after a stream that the server has not ended itself. */
#define CHECK "GET " VOLUMES "?limit=1"
#define PAGES "GET " VOLUMES "?limit=*"
#define FIRST "GET " VOLUMES "?limit=2"
#define BEHIND(token) "GET " VOLUMES "?limit=2&continue=" token
#define OBJECT(name, version)                                                               \
	"{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"" name "\",\"namespace\":\"ns\"," \
	"\"uid\":\"u\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(version) EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" version "\"}}")
#define END(version)                                                                     \
	EVENT("BOOKMARK", "{\"kind\":\"X\",\"metadata\":{\"resourceVersion\":\"" version \
	                  "\",\"creationTimestamp\":null,\"annotations\":{"              \
	                  "\"k8s.io/initial-events-end\":\"true\"}}}")
#define PAGE(version, token, items)                                                \
	"{\"kind\":\"DPUVolumeList\",\"metadata\":{\"resourceVersion\":\"" version \
	"\",\"continue\":\"" token "\"},\"items\":[" items "]}"
#define NOT_SERVED                                                                           \
	.status = 422, .body = STATUS("Invalid", "sendInitialEvents is forbidden for watch " \
	                                         "unless the WatchList feature gate is enabled")

/* The delivered events, as words: "begin a b complete +c -a refused". */
struct received {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct str words;
};

static void on_event(void *arg, enum kube_follow_event event, const char *text, size_t n)
{
	struct received *t = arg;
	struct line_span object = { text, n }, name = { 0 };
	struct kube_member metadata = { .name = "metadata" }, of = { .name = "name" };
	static const char *const words[] = {
		[KUBE_FOLLOW_BEGIN] = "begin",       [KUBE_FOLLOW_LISTED] = "",
		[KUBE_FOLLOW_COMPLETE] = "complete", [KUBE_FOLLOW_CHANGED] = "+",
		[KUBE_FOLLOW_DELETED] = "-",         [KUBE_FOLLOW_REFUSED] = "refused"
	};
	if (event == KUBE_FOLLOW_LISTED || event == KUBE_FOLLOW_CHANGED ||
	    event == KUBE_FOLLOW_DELETED)
		ck_assert(kube_members(object, &metadata, 1) &&
		          kube_members(metadata.value, &of, 1) && kube_plain_text(of.value, &name));
	WITH_LOCK(&t->lock);
	str_addf(&t->words, "%s%s%.*s", t->words.len ? " " : "", words[event], (int)name.n,
	         name.n ? name.at : "");
	pthread_cond_signal(&t->more);
}

/* Waits until exactly these events were delivered since the last call. */
static void expect_events(struct received *t, const char *want)
{
	struct timespec ts = deadline_timespec(wait_limit());
	WITH_LOCK(&t->lock);
	while (t->words.len < strlen(want))
		if (pthread_cond_clockwait(&t->more, &t->lock, CLOCK_MONOTONIC, &ts))
			break;
	ck_assert_str_eq(t->words.ptr, want);
	str_reset(&t->words);
}

/* No further event arrives within a moment: if the test passes by luck, it loses nothing. */
static void expect_no_event(struct received *t)
{
	usleep(100000);
	WITH_LOCK(&t->lock);
	ck_assert_str_eq(t->words.ptr, "");
}

struct world {
	struct kube_fake f;
	struct received received;
	struct kube_follow *follow;
};

static void start_tuned(struct world *w, const struct kube_tuning *tuning)
{
	*w = (struct world) { .received = { .lock = PTHREAD_MUTEX_INITIALIZER,
		                            .more = PTHREAD_COND_INITIALIZER,
		                            .words = STR_INIT(1 << 20) } };
	kube_fake_start(&w->f, tuning);
}

static void start(struct world *w)
{
	start_tuned(w, NULL);
}

static void follow(struct world *w)
{
	w->follow = kube_follow(w->f.kube, &kind_volume, "ns", on_event, &w->received);
}

static void stop(struct world *w)
{
	kube_fake_stop(&w->f);
	str_clear(&w->received.words);
}

static void on(struct world *w, struct fake_reply reply)
{
	fake_http_on(w->f.server, reply);
}

static void push(struct world *w, const char *pattern, const char *bytes)
{
	ck_assert(fake_http_wait_streams(w->f.server, pattern, 1));
	ck_assert_uint_eq(fake_http_push(w->f.server, pattern, bytes), 1);
}

START_TEST(all_objects_come_in_one_stream_and_their_changes_behind_them)
{
	struct world w;
	char *seen AUTO(free) = NULL;
	char why[KUBE_WATCH_ERROR_MAX];
	start(&w);
	on(&w, (struct fake_reply) { .on = FULL, .stream = true });
	on(&w, (struct fake_reply) { .on = FROM("30"), .stream = true });
	follow(&w);
	push(&w, FULL, EVENT("ADDED", OBJECT("a", "12")) EVENT("ADDED", OBJECT("b", "9")));
	expect_events(&w.received, "begin a b");
	push(&w, FULL, END("20"));
	expect_events(&w.received, "complete");
	push(&w, FULL, EVENT("ADDED", OBJECT("c", "21")) EVENT("MODIFIED", OBJECT("a", "22")));
	push(&w, FULL, EVENT("DELETED", OBJECT("b", "23")) BOOKMARK("30"));
	expect_events(&w.received, "+c +a -b");
	ck_assert_int_eq(kube_follow_closed_ms(w.follow, why), 0);
	seen = fake_http_last(w.f.server, FULL);
	ck_assert_ptr_nonnull(strstr(seen, "&resourceVersionMatch=NotOlderThan&"));
	/* A stream that is cut resumes after its last event, and no event is delivered twice. */
	on(&w, (struct fake_reply) { .on = CHECK, .body = PAGE("30", "", "") });
	fake_http_cut_streams(w.f.server, FULL);
	push(&w, FROM("30"), EVENT("ADDED", OBJECT("d", "31")));
	expect_events(&w.received, "+d");
	ck_assert_uint_eq(fake_http_unexpected(w.f.server), 0);
	stop(&w);
}
END_TEST

START_TEST(an_object_that_goes_before_all_have_come_is_told_as_gone)
{
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) { .on = FULL, .stream = true });
	follow(&w);
	push(&w, FULL, EVENT("ADDED", OBJECT("a", "12")) EVENT("ADDED", OBJECT("b", "9")));
	push(&w, FULL, EVENT("DELETED", OBJECT("a", "15")) END("20"));
	expect_events(&w.received, "begin a b -a complete");
	ck_assert_uint_eq(fake_http_unexpected(w.f.server), 0);
	stop(&w);
}
END_TEST

START_TEST(where_streams_do_not_bring_all_objects_they_come_in_pages)
{
	static const struct {
		const char *what;
		struct fake_reply full;
		const char *received;
	} rows[] = {
		{ "the feature is off", { .on = FULL, NOT_SERVED }, "begin begin" },
		{ "an API server that does not know the parameter",
		  { .on = FULL, .status = 400, .body = STATUS("BadRequest", "unknown") },
		  "begin begin" },
		{ "a server that ignores the parameter",
		  { .on = FULL,
		    .stream = true,
		    .body = EVENT("ADDED", OBJECT("a", "1")) BOOKMARK("9") },
		  "begin a begin" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *want AUTO(free) = xasprintf("%s a b c complete", rows[i].received);
		struct world w;
		start(&w);
		on(&w, rows[i].full);
		on(&w, (struct fake_reply) {
			       .on = FIRST,
			       .body = PAGE("100", "t/1", OBJECT("a", "1") "," OBJECT("b", "2")) });
		on(&w, (struct fake_reply) { .on = BEHIND("t%2F1"),
		                             .body = PAGE("100", "", OBJECT("c", "3")) });
		on(&w, (struct fake_reply) { .on = FROM("100"), .stream = true });
		follow(&w);
		expect_events(&w.received, want);
		push(&w, FROM("100"), EVENT("DELETED", OBJECT("a", "101")));
		expect_events(&w.received, "-a");
		ck_assert_msg(fake_http_count(w.f.server, FULL) == 1, "%s", rows[i].what);
		stop(&w);
	}
}
END_TEST

START_TEST(full_streams_that_break_twice_are_followed_by_pages)
{
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) {
		       .on = FULL, .stream = true, .body = EVENT("ADDED", OBJECT("a", "1")) });
	on(&w, (struct fake_reply) { .on = FIRST, .body = PAGE("100", "", OBJECT("a", "1")) });
	on(&w, (struct fake_reply) { .on = FROM("100"), .stream = true });
	follow(&w);
	expect_events(&w.received, "begin a");
	fake_http_cut_streams(w.f.server, FULL);
	expect_events(&w.received, "begin a");
	fake_http_cut_streams(w.f.server, FULL);
	expect_events(&w.received, "begin a complete");
	stop(&w);
}
END_TEST

/* The server compacts, or is replaced, while it sends all objects. */
START_TEST(a_resume_point_lost_in_the_initial_list_restarts_the_follower)
{
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) { .on = FULL,
	                             .stream = true,
	                             .times = 2,
	                             .body = EVENT("ADDED", OBJECT("old", "1")) EVENT(
					     "ERROR", "{\"kind\":\"Status\",\"code\":410}") });
	on(&w, (struct fake_reply) { .on = FULL,
	                             .stream = true,
	                             .body = EVENT("ADDED", OBJECT("a", "1")) END("9") });
	on(&w, (struct fake_reply) { .on = CHECK, .body = PAGE("10", "", "") });
	on(&w, (struct fake_reply) { .on = FROM("9"), .stream = true });
	follow(&w);
	expect_events(&w.received, "begin old begin old begin a complete");
	fake_http_cut_streams(w.f.server, FULL);
	push(&w, FROM("9"), EVENT("ADDED", OBJECT("b", "10")));
	expect_events(&w.received, "+b");
	ck_assert_uint_eq(fake_http_unexpected(w.f.server), 0);
	stop(&w);
}
END_TEST

/* The stream breaks while all objects are sent, and the token was replaced in between. */
START_TEST(a_token_that_is_replaced_among_the_objects_is_read_again)
{
	struct world w;
	char *seen AUTO(free) = NULL;
	start(&w);
	on(&w, (struct fake_reply) { .on = FULL,
	                             .stream = true,
	                             .times = 1,
	                             .body = EVENT("ADDED", OBJECT("old", "1")) });
	on(&w,
	   (struct fake_reply) {
		   .on = FULL, .times = 1, .status = 401, .body = STATUS("Unauthorized", "no") });
	on(&w, (struct fake_reply) { .on = FULL,
	                             .stream = true,
	                             .body = EVENT("ADDED", OBJECT("a", "1")) END("9") });
	follow(&w);
	expect_events(&w.received, "begin old");
	kube_fake_config(&w.f, fake_http_url(w.f.server), "", "    token: token-2\n");
	fake_http_cut_streams(w.f.server, FULL);
	expect_events(&w.received, "begin begin a complete");
	seen = fake_http_last(w.f.server, FULL);
	ck_assert_ptr_nonnull(strstr(seen, "Bearer token-2"));
	ck_assert_uint_eq(fake_http_unexpected(w.f.server), 0);
	stop(&w);
}
END_TEST

#define PLAIN EVENT("MODIFIED", OBJECT("a", "98")) EVENT("ADDED", OBJECT("new", "99"))

/* Such a server silently ignores the parameter: it sends only changes. */
START_TEST(a_plain_watch_in_place_of_a_full_stream_is_followed_by_pages)
{
	static const struct kube_tuning impatient = {
		.watch_backoff_ms = 20, .watch_backoff_most_ms = 100, .page = 2, .fill_ms = 300
	};
	struct world w;
	char why[KUBE_WATCH_ERROR_MAX];
	start_tuned(&w, &impatient);
	on(&w, (struct fake_reply) { .on = FULL, .stream = true, .body = PLAIN });
	on(&w, (struct fake_reply) {
		       .on = FIRST,
		       .body = PAGE("100", "", OBJECT("a", "98") "," OBJECT("new", "99")) });
	on(&w, (struct fake_reply) { .on = FROM("100"), .stream = true });
	follow(&w);
	expect_events(&w.received, "begin a new");
	expect_events(&w.received, "begin a new complete");
	push(&w, FROM("100"), EVENT("ADDED", OBJECT("b", "101")));
	expect_events(&w.received, "+b");
	ck_assert_int_eq(kube_follow_closed_ms(w.follow, why), 0);
	/* Once may be chance. */
	ck_assert_uint_eq(fake_http_count(w.f.server, FULL), 1);
	push(&w, FROM("100"), EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410}"));
	expect_events(&w.received, "begin a new");
	expect_events(&w.received, "begin a new complete");
	ck_assert_uint_eq(fake_http_count(w.f.server, FULL), 2);
	push(&w, FROM("100"), EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410}"));
	expect_events(&w.received, "begin a new complete");
	ck_assert_uint_eq(fake_http_count(w.f.server, FULL), 2);
	stop(&w);
}
END_TEST

/* However long it takes: fill_ms is only for the first one. */
START_TEST(a_full_stream_of_many_objects_has_time_for_them)
{
	static const struct kube_tuning impatient = { .watch_backoff_ms = 20, .fill_ms = 3000 };
	struct str many AUTO(str_clear) = STR_INIT(4 << 20);
	struct str words AUTO(str_clear) = STR_INIT(4 << 20);
	struct world w;
	start_tuned(&w, &impatient);
	str_add(&words, "begin");
	for (int i = 0; i < 5000; i++) {
		str_add(&many, EVENT("ADDED", OBJECT("a", "1")));
		str_add(&words, " a");
	}
	on(&w, (struct fake_reply) { .on = FULL, .stream = true, .body = many.ptr });
	follow(&w);
	expect_events(&w.received, words.ptr);
	usleep((impatient.fill_ms + 500) * 1000);
	push(&w, FULL, END("9"));
	expect_events(&w.received, "complete");
	ck_assert_uint_eq(fake_http_unexpected(w.f.server), 0);
	stop(&w);
}
END_TEST

START_TEST(a_server_whose_cache_lags_is_not_asked_for_pages)
{
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) {
		       .on = FULL,
		       .stream = true,
		       .times = 3,
		       .body = EVENT("ERROR",
	                             "{\"kind\":\"Status\",\"code\":504,\"reason\":"
	                             "\"Timeout\",\"message\":\"Too large resource version\"}") });
	on(&w, (struct fake_reply) { .on = FULL,
	                             .stream = true,
	                             .body = EVENT("ADDED", OBJECT("a", "1")) END("9") });
	follow(&w);
	expect_events(&w.received, "begin begin begin begin a complete");
	ck_assert_uint_eq(fake_http_unexpected(w.f.server), 0);
	stop(&w);
}
END_TEST

START_TEST(pages_go_on_where_they_failed_and_begin_again_where_the_token_has_expired)
{
	static const struct {
		const char *what;
		struct fake_reply fault;
		const char *received;
	} rows[] = {
		{ "503",
		  { .on = BEHIND("t1"), .status = 503, .times = 1 },
		  "begin a b c complete" },
		{ "cut", { .on = BEHIND("t1"), .cut = true, .times = 1 }, "begin a b c complete" },
		{ "410",
		  { .on = BEHIND("t1"),
		    .status = 410,
		    .body = STATUS("Expired", "too old"),
		    .times = 1 },
		  "begin a b begin a b c complete" },
		{ "no list",
		  { .on = BEHIND("t1"), .body = "<html>", .times = 1 },
		  "begin a b c complete" },
		{ "an item that is none",
		  { .on = BEHIND("t1"), .body = PAGE("100", "", "[]"), .times = 1 },
		  "begin a b c complete" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w;
		start(&w);
		on(&w, (struct fake_reply) { .on = FULL, NOT_SERVED });
		on(&w, rows[i].fault);
		on(&w, (struct fake_reply) {
			       .on = FIRST,
			       .body = PAGE("100", "t1", OBJECT("a", "1") "," OBJECT("b", "2")) });
		on(&w, (struct fake_reply) { .on = BEHIND("t1"),
		                             .body = PAGE("100", "", OBJECT("c", "3")) });
		on(&w, (struct fake_reply) { .on = FROM("100"), .stream = true });
		follow(&w);
		{
			char *want AUTO(free) = xasprintf("begin %s", rows[i].received);
			expect_events(&w.received, want);
		}
		stop(&w);
	}
}
END_TEST

/* A server that was restored from a backup reacts in this way to an older token. */
START_TEST(pages_begin_again_where_the_next_one_is_never_answered)
{
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) { .on = FULL, NOT_SERVED });
	on(&w, (struct fake_reply) {
		       .on = FIRST,
		       .times = 1,
		       .body = PAGE("100", "t/1", OBJECT("a", "1") "," OBJECT("b", "2")) });
	on(&w, (struct fake_reply) { .on = BEHIND("t%2F1"),
	                             .status = 500,
	                             .body = STATUS("", "required revision is a future one") });
	on(&w, (struct fake_reply) { .on = FIRST, .body = PAGE("50", "", OBJECT("a", "1")) });
	on(&w, (struct fake_reply) { .on = FROM("50"), .stream = true });
	follow(&w);
	expect_events(&w.received, "begin begin a b begin a complete");
	ck_assert_uint_eq(fake_http_unexpected(w.f.server), 0);
	stop(&w);
}
END_TEST

START_TEST(a_lost_resume_point_restarts_the_follower)
{
	static const struct {
		const char *what, *event;
	} rows[] = {
		{ "410", "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n" },
		{ "500", "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n" },
		{ "a line that is not an event", "garbage\n" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w;
		start(&w);
		on(&w, (struct fake_reply) { .on = FULL,
		                             .stream = true,
		                             .body = EVENT("ADDED", OBJECT("a", "1")) END("9"),
		                             .times = 1 });
		on(&w, (struct fake_reply) { .on = FULL,
		                             .stream = true,
		                             .body = EVENT("ADDED", OBJECT("b", "10")) END("19") });
		follow(&w);
		expect_events(&w.received, "begin a complete");
		push(&w, FULL, rows[i].event);
		expect_events(&w.received, "begin b complete");
		stop(&w);
	}
}
END_TEST

START_TEST(a_refusal_is_told_and_tried_again)
{
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) { .on = FULL,
	                             .status = 403,
	                             .body = STATUS("Forbidden", "no watch for you"),
	                             .times = 2 });
	on(&w, (struct fake_reply) { .on = FULL, .stream = true, .body = END("9") });
	follow(&w);
	expect_events(&w.received, "begin begin refused begin complete");
	stop(&w);
}
END_TEST

START_TEST(how_long_no_stream_is_open_is_known)
{
	char why[KUBE_WATCH_ERROR_MAX];
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) { .on = FULL, .stream = true, .body = END("9") });
	on(&w, (struct fake_reply) { .on = FROM("9"), .status = 503 });
	on(&w, (struct fake_reply) { .on = CHECK, .body = PAGE("9", "", "") });
	follow(&w);
	expect_events(&w.received, "begin complete");
	ck_assert_int_eq(kube_follow_closed_ms(w.follow, why), 0);
	fake_http_end_streams(w.f.server, FULL);
	ck_assert(fake_http_wait(w.f.server, FROM("9"), 2));
	ck_assert_int_gt(kube_follow_closed_ms(w.follow, why), 0);
	ck_assert_msg(strstr(why, "HTTP 503"), "%s", why);
	stop(&w);
}
END_TEST

/*
 * The listed objects may be older than the state that a wait has seen, so it only receives later
 * changes.
 */
START_TEST(who_waits_is_told_of_changes_and_not_of_the_objects_that_are_listed)
{
	struct kube_wait *wait = NULL;
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	struct world w;
	start(&w);
	on(&w, (struct fake_reply) {
		       .on = FULL, .stream = true, .body = EVENT("ADDED", OBJECT("a", "1")) });
	on(&w, (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = OBJECT("a", "5") });
	follow(&w);
	ck_assert_int_eq(kube_wait_open(w.f.kube, &kind_volume, "ns", "a", &wait, &err), 0);
	expect_events(&w.received, "begin a");
	ck_assert_int_eq(kube_wait_next(wait, deadline_in_ms(100), &object, &err), -1);
	err_clear(&err);
	push(&w, FULL, END("9"));
	ck_assert_int_eq(kube_wait_next(wait, wait_limit(), &object, &err), 0);
	ck_assert_str_eq(json_str(object, "metadata.resourceVersion"), "5");
	json_free(TAKE(object));
	push(&w, FULL, EVENT("MODIFIED", OBJECT("a", "10")));
	ck_assert_int_eq(kube_wait_next(wait, wait_limit(), &object, &err), 0);
	ck_assert_str_eq(json_str(object, "metadata.resourceVersion"), "10");
	kube_wait_close(wait);
	expect_events(&w.received, "complete +a");
	expect_no_event(&w.received);
	stop(&w);
}
END_TEST

SUITE_TIMEOUT("kube_follow", 60, all_objects_come_in_one_stream_and_their_changes_behind_them,
              an_object_that_goes_before_all_have_come_is_told_as_gone,
              where_streams_do_not_bring_all_objects_they_come_in_pages,
              full_streams_that_break_twice_are_followed_by_pages,
              a_resume_point_lost_in_the_initial_list_restarts_the_follower,
              a_token_that_is_replaced_among_the_objects_is_read_again,
              a_plain_watch_in_place_of_a_full_stream_is_followed_by_pages,
              a_full_stream_of_many_objects_has_time_for_them,
              a_server_whose_cache_lags_is_not_asked_for_pages,
              pages_go_on_where_they_failed_and_begin_again_where_the_token_has_expired,
              pages_begin_again_where_the_next_one_is_never_answered,
              a_lost_resume_point_restarts_the_follower, a_refusal_is_told_and_tried_again,
              how_long_no_stream_is_open_is_known,
              who_waits_is_told_of_changes_and_not_of_the_objects_that_are_listed);
