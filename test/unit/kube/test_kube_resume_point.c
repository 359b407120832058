/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An API server whose data are replaced by older data, as by a restore of etcd: detection by a
 * watch, and the answers that it must not misinterpret.
 */
#include "kube/kube_follow.h"

#include <string.h>

#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "kube/kube_event.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define FULL "GET " VOLUMES "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true*"
#define WATCH "GET " VOLUMES "?watch=1*"
#define FROM(version) \
	"GET " VOLUMES "?watch=1&allowWatchBookmarks=true&resourceVersion=" version "*"
/* The check of a resume point; also a list without a follower. */
#define ONE "GET " VOLUMES "?limit=1"
#define LIST "GET " VOLUMES "?limit=2"
#define OBJECT(name, version)                                                               \
	"{\"kind\":\"DPUVolume\",\"metadata\":{\"name\":\"" name "\",\"namespace\":\"ns\"," \
	"\"uid\":\"u\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define MARK(version, more) \
	EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" version "\"" more "}}")
#define END(version) MARK(version, ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}")

/* The version in the answers of the test's server; "%s" in these bodies. */
#define PAGE_AT                                                              \
	"{\"kind\":\"DPUVolumeList\",\"metadata\":{\"resourceVersion\":\"%s" \
	"\",\"continue\":\"%s\"},\"items\":[]}"

/* The delivered events, as words: "begin a b complete +c". */
struct received {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct str words;
};

static void on_event(void *arg, enum kube_follow_event event, const char *text, size_t n)
{
	struct received *t = arg;
	struct kube_member metadata = { .name = "metadata" }, of = { .name = "name" };
	struct line_span name = { 0 };
	static const char *const words[] = {
		[KUBE_FOLLOW_BEGIN] = "begin",       [KUBE_FOLLOW_LISTED] = "",
		[KUBE_FOLLOW_COMPLETE] = "complete", [KUBE_FOLLOW_CHANGED] = "+",
		[KUBE_FOLLOW_DELETED] = "-",         [KUBE_FOLLOW_REFUSED] = "refused"
	};
	if (n > 0 && event != KUBE_FOLLOW_REFUSED)
		ck_assert(kube_members((struct line_span) { text, n }, &metadata, 1) &&
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

struct world {
	struct kube_fake f;
	struct received received;
};

static void on(struct world *w, struct fake_reply reply)
{
	fake_http_on(w->f.server, reply);
}

/* A follower at version 4005, and a server that has another object in its next list. */
static void start(struct world *w, int silence_ms)
{
	const struct kube_tuning t = { .watch_backoff_ms = 20,
		                       .watch_backoff_most_ms = 100,
		                       .watch_silence_ms = silence_ms,
		                       .page = 2 };
	*w = (struct world) { .received = { .lock = PTHREAD_MUTEX_INITIALIZER,
		                            .more = PTHREAD_COND_INITIALIZER,
		                            .words = STR_INIT(1 << 20) } };
	kube_fake_start(&w->f, &t);
	on(w, (struct fake_reply) { .on = FULL,
	                            .stream = true,
	                            .times = 1,
	                            .body = EVENT("ADDED", OBJECT("a", "9")) END("4005") });
	on(w, (struct fake_reply) { .on = FULL,
	                            .stream = true,
	                            .body = EVENT("ADDED", OBJECT("b", "8")) END("1006") });
	on(w, (struct fake_reply) { .on = WATCH, .stream = true });
	kube_follow(w->f.kube, &kind_volume, "ns", on_event, &w->received);
	expect_events(&w->received, "begin a complete");
	ck_assert(fake_http_wait_streams(w->f.server, FULL, 1));
	/* After "complete" the resume point is set: the delivered change proves it. */
	fake_http_push(w->f.server, FULL, EVENT("MODIFIED", OBJECT("a", "4005")));
	expect_events(&w->received, "+a");
}

static void stop(struct world *w)
{
	kube_fake_stop(&w->f);
	str_clear(&w->received.words);
}

/* ---- what happens at a server that is at this version ---- */

static void answer_lists(struct world *w, const char *version)
{
	char *page AUTO(free) = xasprintf(PAGE_AT, version, "");
	on(w, (struct fake_reply) { .on = ONE, .body = page });
	on(w, (struct fake_reply) { .on = LIST, .body = page });
}

static void cut(struct world *w, const char *version)
{
	answer_lists(w, version);
	fake_http_cut_streams(w->f.server, FULL);
}

static void stay_silent(struct world *w, const char *version)
{
	answer_lists(w, version);
}

static void send_bookmark(struct world *w, const char *version)
{
	char *line AUTO(free) = xasprintf(MARK("%s", ""), version);
	fake_http_push(w->f.server, FULL, line);
}

static void create(struct world *w, const char *version)
{
	char *body AUTO(free) = xasprintf(OBJECT("new", "%s"), version);
	struct json *object AUTO(json_free) = json_object();
	struct err err = ERR_INIT;
	on(w, (struct fake_reply) { .on = "POST " VOLUMES, .status = 201, .body = body });
	json_set_str(json_sub(object, "metadata"), "name", "new");
	ck_assert_int_eq(
		kube_create(w->f.kube, &kind_volume, "ns", object, wait_limit(), NULL, &err), 0);
}

static void patch(struct world *w, const char *version)
{
	char *body AUTO(free) = xasprintf(OBJECT("a", "%s"), version);
	struct json *change AUTO(json_free) = json_object();
	struct err err = ERR_INIT;
	on(w, (struct fake_reply) { .on = "PATCH " VOLUMES "/a", .body = body });
	ck_assert_int_eq(
		kube_patch(w->f.kube, &kind_volume, "ns", "a", change, wait_limit(), NULL, &err),
		0);
}

static void get(struct world *w, const char *version)
{
	char *body AUTO(free) = xasprintf(OBJECT("a", "%s"), version);
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	on(w, (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = body });
	ck_assert_int_eq(
		kube_get_cached(w->f.kube, &kind_volume, "ns", "a", wait_limit(), &object, &err),
		0);
}

static int ignore(void *arg, const struct json *item, struct err *err)
{
	(void)arg;
	(void)item;
	(void)err;
	return 0;
}

static void list(struct world *w, const char *version)
{
	struct err err = ERR_INIT;
	answer_lists(w, version);
	ck_assert_int_eq(
		kube_list(w->f.kube, &kind_volume, "ns", NULL, ignore, NULL, wait_limit(), &err),
		0);
}

/* From an earlier list's snapshot: it is as old as that list. */
static void list_second_page(struct world *w, const char *version)
{
	char *page AUTO(free) = xasprintf(PAGE_AT, version, ""), *next AUTO(free) = NULL;
	struct err err = ERR_INIT;
	on(w, (struct fake_reply) { .on = LIST "&continue=t", .body = page });
	ck_assert_int_eq(kube_list_page(w->f.kube, &kind_volume, "ns", 0, "t", ignore, NULL, &next,
	                                wait_limit(), &err),
	                 0);
}

static void list_cached(struct world *w, const char *version)
{
	struct err err = ERR_INIT;
	char *page AUTO(free) = xasprintf(PAGE_AT, version, "");
	on(w, (struct fake_reply) { .on = LIST "&resourceVersion=0", .body = page });
	ck_assert_int_eq(kube_list_cached(w->f.kube, &kind_volume, "ns", NULL, ignore, NULL,
	                                  wait_limit(), &err),
	                 0);
}

/* ---- rows ---- */

enum { SILENCE_MS = 300, NO_SILENCE_MS = 600000 };

static const struct {
	const char *what;
	void (*happens)(struct world *w, const char *version);
	const char *version;
	int silence_ms;
} older[] = {
	{ "a stream that is cut", cut, "1006", NO_SILENCE_MS },
	{ "one less", cut, "4004", NO_SILENCE_MS },
	{ "fewer digits, a greater text", cut, "999", NO_SILENCE_MS },
	{ "a stream that brings nothing", stay_silent, "1006", SILENCE_MS },
	{ "a bookmark", send_bookmark, "1006", NO_SILENCE_MS },
	{ "an object that was created", create, "1006", NO_SILENCE_MS },
	{ "a list", list, "1006", NO_SILENCE_MS },
};

START_TEST(older_data_of_the_server_are_listed_again)
{
	struct world w;
	start(&w, older[_i].silence_ms);
	older[_i].happens(&w, older[_i].version);
	expect_events(&w.received, "begin b complete");
	ck_assert_uint_eq(fake_http_count(w.f.server, FROM("4005")), 0);
	ck_assert_int_eq(metric_value(METRIC_WATCH_RESTARTS, LABELS("dpuvolumes", "reverted")), 1);
	stop(&w);
}
END_TEST

static const struct {
	const char *what;
	void (*happens)(struct world *w, const char *version);
	const char *version;
	int silence_ms;
	bool again; /* the stream is requested again, from the same version */
} not_older[] = {
	{ "cut, and nothing has happened", cut, "4005", NO_SILENCE_MS, true },
	{ "cut, and the server has gone on", cut, "5000", NO_SILENCE_MS, true },
	{ "more digits, a smaller text", cut, "10000", NO_SILENCE_MS, true },
	{ "a version that is not a number", cut, "a1", NO_SILENCE_MS, true },
	{ "a leading zero", cut, "01006", NO_SILENCE_MS, true },
	{ "a number above 64 bits", cut, "18446744073709552622", NO_SILENCE_MS, true },
	{ "a quiet collection", stay_silent, "4005", SILENCE_MS, true },
	{ "a bookmark of the same version", send_bookmark, "4005", NO_SILENCE_MS, false },
	{ "a bookmark that is not a number", send_bookmark, "x", NO_SILENCE_MS, false },
	{ "a list of the same version", list, "4005", NO_SILENCE_MS, false },
	{ "an object made by another API server", create, "4006", NO_SILENCE_MS, false },
	{ "an API server's cache that lags", get, "1006", NO_SILENCE_MS, false },
	{ "a list of that cache", list_cached, "1006", NO_SILENCE_MS, false },
	{ "a PATCH that changes nothing", patch, "1006", NO_SILENCE_MS, false },
	{ "a further page of an older list", list_second_page, "1006", NO_SILENCE_MS, false },
};

START_TEST(data_that_are_not_older_are_not_listed_again)
{
	const char *stream = not_older[_i].again ? FROM("4005") : FULL;
	struct world w;
	start(&w, not_older[_i].silence_ms);
	not_older[_i].happens(&w, not_older[_i].version);
	ck_assert(fake_http_wait(w.f.server, stream, 1));
	ck_assert(fake_http_wait_streams(w.f.server, stream, 1));
	ck_assert_uint_eq(fake_http_push(w.f.server, stream, EVENT("ADDED", OBJECT("c", "6000"))),
	                  1);
	expect_events(&w.received, "+c");
	ck_assert_uint_eq(fake_http_count(w.f.server, FULL), 1);
	stop(&w);
}
END_TEST

/* Versions without an order, contrary to the guarantee of Kubernetes, must not cost a list each. */
START_TEST(answers_that_are_always_lower_make_it_list_once)
{
	struct world w;
	start(&w, NO_SILENCE_MS);
	create(&w, "1005");
	expect_events(&w.received, "begin b complete");
	list(&w, "700");
	create(&w, "700");
	fake_http_push(w.f.server, FULL, EVENT("ADDED", OBJECT("c", "1007")));
	expect_events(&w.received, "+c");
	ck_assert_uint_eq(fake_http_count(w.f.server, FULL), 2);
	stop(&w);
}
END_TEST

static void wait_is_told(struct kube_wait *w, const char *version)
{
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	ck_assert_int_eq(kube_wait_next(w, wait_limit(), &object, &err), 0);
	ck_assert_str_eq(json_str(object, "metadata.resourceVersion"), version);
}

/* Without a follower: the awaited objects are read. */
START_TEST(who_waits_is_told_the_older_state)
{
	const struct kube_tuning t = { .watch_backoff_ms = 20, .watch_backoff_most_ms = 100 };
	struct world w = { .received.words = STR_INIT(1) };
	struct kube_wait *wait = NULL;
	struct err err = ERR_INIT;
	char *page AUTO(free) = xasprintf(PAGE_AT, "4005", "");
	kube_fake_start(&w.f, &t);
	on(&w, (struct fake_reply) { .on = ONE, .times = 1, .body = page });
	on(&w, (struct fake_reply) {
		       .on = "GET " VOLUMES "/a", .times = 1, .body = OBJECT("a", "4001") });
	on(&w, (struct fake_reply) { .on = "GET " VOLUMES "/a", .body = OBJECT("a", "900") });
	on(&w, (struct fake_reply) { .on = WATCH, .stream = true });
	ck_assert_int_eq(kube_wait_open(w.f.kube, &kind_volume, "ns", "a", &wait, &err), 0);
	wait_is_told(wait, "4001");
	ck_assert(fake_http_wait_streams(w.f.server, FROM("4005"), 1));
	answer_lists(&w, "1006");
	create(&w, "1006");
	wait_is_told(wait, "900");
	ck_assert(fake_http_wait_streams(w.f.server, FROM("1006"), 1));
	kube_wait_close(wait);
	stop(&w);
}
END_TEST

SUITE_TIMEOUT("kube_resume_point", 60,
              LOOP(older_data_of_the_server_are_listed_again, ARRAY_LEN(older)),
              LOOP(data_that_are_not_older_are_not_listed_again, ARRAY_LEN(not_older)),
              answers_that_are_always_lower_make_it_list_once, who_waits_is_told_the_older_state);
