/* SPDX-License-Identifier: Apache-2.0 */
/* The index of attachments: its reaction to events and our own writes, and when it is used. */
#include "controller/attachment_index.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"
#include "test/lib/wait.h"

#define A "dpuvolumeattachments"
#define DRIVER "csi.snap.nvidia.com"

static struct attachment_index *begin(void)
{
	return attachment_index_new(NULL, FAKE_NS, DRIVER);
}

static size_t found(struct attachment_index *x, const char *volume)
{
	struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };

	attachment_index_find(x, volume, NULL, ATTACHMENT_ANY_AGE, 10, &p);
	return p.all;
}

START_TEST(an_object_is_what_its_spec_and_labels_say)
{
	static const struct {
		const char *what, *object;
		size_t found;                 /* of volume v */
		size_t all, ours, unlabelled; /* on node n */
	} rows[] = {
		{ "the Go plugin's",
		  "{\"metadata\":{\"name\":\"n-v\"},\"spec\":{\"dpuVolumeName\":\"v\","
		  "\"dpuNodeName\":\"n\"}}",
		  1, 1, 0, 0 },
		{ "ours",
		  "{\"metadata\":{\"name\":\"n-v\",\"labels\":{\"app.kubernetes.io/managed-by\":"
		  "\"" DRIVER "\",\"" DRIVER "/volume\":\"v\"}},\"spec\":{\"dpuVolumeName\":\"v\","
		  "\"dpuNodeName\":\"n\"}}",
		  1, 1, 1, 0 },
		{ "ours without our labels",
		  "{\"metadata\":{\"name\":\"n-v\",\"labels\":{\"app.kubernetes.io/managed-by\":"
		  "\"" DRIVER "\"}},\"spec\":{\"dpuVolumeName\":\"v\",\"dpuNodeName\":\"n\"}}",
		  1, 1, 1, 1 },
		{ "another driver's",
		  "{\"metadata\":{\"name\":\"n-v\",\"labels\":{\"app.kubernetes.io/managed-by\":"
		  "\"helm\"}},\"spec\":{\"dpuVolumeName\":\"v\",\"dpuNodeName\":\"n\"}}",
		  1, 1, 0, 0 },
		{ "a text with an escape",
		  "{\"metadata\":{\"name\":\"n-v\",\"labels\":null},\"spec\":{\"dpuVolumeName\":"
		  "\"v\",\"dpuNodeName\":\"n\",\"x\":\"\\\\\"}}",
		  1, 1, 0, 0 },
		{ "no spec", "{\"metadata\":{\"name\":\"n-v\"}}", 0, 0, 0, 0 },
		{ "no node", "{\"metadata\":{\"name\":\"n-v\"},\"spec\":{\"dpuVolumeName\":\"v\"}}",
		  0, 0, 0, 0 },
		{ "a spec that is none", "{\"metadata\":{\"name\":\"n-v\"},\"spec\":[]}", 0, 0, 0,
		  0 },
		{ "a volume that is no text",
		  "{\"metadata\":{\"name\":\"n-v\"},\"spec\":{\"dpuVolumeName\":{},"
		  "\"dpuNodeName\":\"n\"}}",
		  0, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct attachment_count c;
		struct attachment_index *x;

		fake_reset();
		fake_put(A, rows[i].object);
		x = begin();
		c = attachment_index_count(x, "n");
		ck_assert_msg(found(x, "v") == rows[i].found, "%s", rows[i].what);
		ck_assert_msg(c.all == rows[i].all && c.ours == rows[i].ours &&
		                      c.unlabelled == rows[i].unlabelled,
		              "%s: %zu %zu %zu", rows[i].what, c.all, c.ours, c.unlabelled);
		attachment_index_free(x);
	}
	fake_reset();
}
END_TEST

START_TEST(it_is_attached_when_its_status_says_so)
{
	static const struct {
		const char *status;
		bool attached;
	} rows[] = {
		{ "null", false },
		{ "{}", false },
		{ "{\"dpuAttached\":true}", true },
		{ "{\"dpuAttached\":false}", false },
		{ "{\"dpuAttached\":\"true\"}", false },
		{ "{\"x\":{\"dpuAttached\":true}}", false },
		{ "{\"conditions\":[],\"dpuAttached\":true}", true },
		{ "[]", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows) * 2; i++) {
		bool tree = i % 2; /* an escape forces a tree */
		struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };
		char *object AUTO(free) =
			xasprintf("{\"metadata\":{\"name\":\"n-v\"},\"spec\":{"
		                  "\"dpuVolumeName\":\"%s\",\"dpuNodeName\":\"n\"},"
		                  "\"status\":%s}",
		                  tree ? "\\u0076" : "v", rows[i / 2].status);
		struct attachment_index *x;

		fake_reset();
		x = begin();
		fake.follower.fn(fake.follower.arg, KUBE_FOLLOW_CHANGED, object, strlen(object));
		attachment_index_find(x, "v", NULL, ATTACHMENT_ANY_AGE, 9, &p);
		ck_assert_msg(p.n == 1 && p.v[0].attached == rows[i / 2].attached, "%s", object);
		attachment_index_free(x);
	}
	fake_reset();
}
END_TEST

START_TEST(texts_that_need_a_tree_are_read_as_well)
{
	char longer[400];
	char *object AUTO(free) = NULL;
	struct attachment_refs p = { .n = 0 };
	struct attachment_index *x;

	memset(longer, 'n', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	object = xasprintf(
		"{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"},\"spec\":{\"dpuVolumeName\":"
		"\"\\u0076\",\"dpuNodeName\":\"%s\"}}",
		longer);
	fake_reset();
	x = begin();
	fake.follower.fn(fake.follower.arg, KUBE_FOLLOW_CHANGED, object, strlen(object));
	attachment_index_find(x, "v", NULL, ATTACHMENT_ANY_AGE, 9, &p);
	ck_assert_uint_eq(p.n, 1);
	ck_assert_str_eq(p.v[0].node, longer);
	ck_assert_str_eq(p.v[0].name, "x");
	attachment_refs_clear(&p);
	fake.follower.fn(fake.follower.arg, KUBE_FOLLOW_DELETED, object, strlen(object));
	ck_assert_uint_eq(found(x, "v"), 0);
	/* An event that is not valid JSON is ignored. */
	fake.follower.fn(fake.follower.arg, KUBE_FOLLOW_CHANGED, "{\"metadata\":\\", 13);
	attachment_index_free(x);
	fake_reset();
}
END_TEST

START_TEST(it_is_used_when_all_were_read_and_the_watch_works)
{
	static const struct {
		const char *what;
		enum kube_follow_event start;
		int64_t closed_ms;
		const char *down;
		int rc;
		const char *text;
	} rows[] = {
		{ "all were read", KUBE_FOLLOW_COMPLETE, 0, NULL, 0, "" },
		{ "a stream that is opened again", KUBE_FOLLOW_COMPLETE, 4000, NULL, 0, "" },
		{ "no stream for long", KUBE_FOLLOW_COMPLETE, 6000, "connection refused",
		  INDEX_UNUSABLE, "" },
		{ "it is refused", KUBE_FOLLOW_REFUSED, 100, "not allowed to watch", INDEX_UNUSABLE,
		  "" },
		{ "two have been read", KUBE_FOLLOW_BEGIN, 0, NULL, -1,
		  "the attachments of namespace dpf are still being read: 2 so far; retry" },
		{ "the server is away", KUBE_FOLLOW_BEGIN, 100, "cannot reach it", -1,
		  "the attachments of namespace dpf are still being read: 2 so far; cannot reach it; "
		  "retry" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		struct attachment_index *x;
		int rc;

		fake_reset();
		fake_put(A, "{\"metadata\":{\"name\":\"n-v\"},\"spec\":{\"dpuVolumeName\":\"v\","
		            "\"dpuNodeName\":\"n\"}}");
		fake_put(A, "{\"metadata\":{\"name\":\"strange\"}}");
		fake.follower.start = rows[i].start;
		fake.follower.closed_ms = rows[i].closed_ms;
		fake.watch_error = rows[i].down;
		x = begin();
		rc = attachment_index_ready(x, deadline_in_ms(30), &err);
		ck_assert_msg(rc == rows[i].rc, "%s: %d", rows[i].what, rc);
		ROW_STR_EQ(rows[i].what, err.msg, rows[i].text);
		ck_assert_msg(rc >= 0 || err.code == ERR_DEADLINE, "%s", rows[i].what);
		attachment_index_free(x);
	}
	fake_reset();
}
END_TEST

static void *complete_soon(void *arg)
{
	(void)arg;
	usleep(100000);
	fake_tell(KUBE_FOLLOW_COMPLETE, NULL);
	return NULL;
}

static void *cancel_soon(void *arg)
{
	usleep(100000);
	cancel_set(arg);
	return NULL;
}

START_TEST(while_all_are_read_anew_nothing_is_said_and_that_is_waited_for)
{
	struct attachment_refs p = { .n = 0 };
	struct err err = ERR_INIT;
	struct attachment_index *x;

	fake_reset();
	x = begin();
	ck_assert(attachment_index_find(x, "v", NULL, ATTACHMENT_ANY_AGE, 1, &p));
	/* Without events for longer than a listing that is considered stalled. */
	sleep(6);
	fake_tell(KUBE_FOLLOW_BEGIN, NULL);
	ck_assert(!attachment_index_find(x, "v", NULL, ATTACHMENT_ANY_AGE, 1, &p));
	ck_assert_int_eq(attachment_index_ready(x, deadline_in_ms(30), &err), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	err_clear(&err);
	/* Nor is the watch blamed for not delivering our attachment in between. */
	ck_assert_uint_eq(attachment_index_await(x, "v", "n", "u", wait_limit()),
	                  ATTACHMENT_UNSEEN);
	fake_tell(KUBE_FOLLOW_COMPLETE, NULL);
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), 0);
	attachment_index_free(x);
	fake_reset();
}
END_TEST

START_TEST(who_comes_early_waits_until_all_were_read_or_he_is_called_off)
{
	struct cancel cancel;
	struct deadline d = wait_limit();
	struct err err = ERR_INIT;
	struct attachment_index *x;
	pthread_t thread;

	fake_reset();
	fake.follower.start = KUBE_FOLLOW_BEGIN;
	x = begin();
	cancel_init(&cancel);
	d.cancel = &cancel;
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
	ck_assert_int_eq(attachment_index_ready(x, d, &err), -1);
	ck_assert_int_eq(err.code, ERR_CANCELLED);
	pthread_join(thread, NULL);
	cancel_destroy(&cancel);
	ck_assert_int_eq(pthread_create(&thread, NULL, complete_soon, NULL), 0);
	err_clear(&err);
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), 0);
	pthread_join(thread, NULL);
	attachment_index_free(x);
	fake_reset();
}
END_TEST

#define OURS(uid)                                                                           \
	"{\"metadata\":{\"name\":\"n-v\",\"uid\":\"" uid "\"},\"spec\":{\"dpuVolumeName\":" \
	"\"v\",\"dpuNodeName\":\"n\"}}"

static void tell(enum kube_follow_event news, const char *object)
{
	fake.follower.fn(fake.follower.arg, news, object, strlen(object));
}

START_TEST(our_own_writes_are_known_at_once_and_late_events_undo_none_of_them)
{
	struct attachment_fact f = {
		.volume = "v", .node = "n", .name = "n-v", .uid = "2", .ours = true
	};
	struct attachment_index *x;

	fake_reset();
	x = begin();
	tell(KUBE_FOLLOW_CHANGED, OURS("1"));
	attachment_index_gone(x, "v", "n", "1");
	ck_assert_uint_eq(found(x, "v"), 0);
	attachment_index_made(x, &f);
	ck_assert_uint_eq(found(x, "v"), 1);
	ck_assert_uint_eq(attachment_index_count(x, "n").ours, 1);
	/* Yesterday's object, late. */
	tell(KUBE_FOLLOW_DELETED, OURS("1"));
	ck_assert_uint_eq(found(x, "v"), 1);
	/* Our own event, then its deletion. */
	tell(KUBE_FOLLOW_CHANGED, OURS("2"));
	ck_assert_uint_eq(found(x, "v"), 1);
	tell(KUBE_FOLLOW_DELETED, OURS("2"));
	ck_assert_uint_eq(found(x, "v"), 0);
	attachment_index_free(x);
	fake_reset();
}
END_TEST

START_TEST(a_new_listing_makes_all_that_was_known_void)
{
	struct err err = ERR_INIT;
	struct attachment_index *x;

	fake_reset();
	x = begin();
	tell(KUBE_FOLLOW_CHANGED, OURS("1"));
	tell(KUBE_FOLLOW_BEGIN, "");
	ck_assert_uint_eq(found(x, "v"), 0);
	ck_assert_int_eq(attachment_index_ready(x, deadline_in_ms(20), &err), -1);
	tell(KUBE_FOLLOW_LISTED, OURS("1"));
	tell(KUBE_FOLLOW_COMPLETE, "");
	err_clear(&err);
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), 0);
	ck_assert_uint_eq(found(x, "v"), 1);
	attachment_index_free(x);
	fake_reset();
}
END_TEST

START_TEST(a_watch_that_keeps_our_own_event_back_is_not_believed_until_it_brings_one)
{
	struct attachment_fact f = { .volume = "v", .node = "n", .name = "n-v", .uid = "1" };
	struct err err = ERR_INIT;
	struct attachment_index *x;

	fake_reset();
	x = begin();
	attachment_index_made(x, &f);
	/* A call with less time proves nothing about the watch. */
	ck_assert_uint_eq(attachment_index_await(x, "v", "n", "1", deadline_in_ms(20)),
	                  ATTACHMENT_UNSEEN);
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), 0);
	ck_assert_uint_eq(attachment_index_await(x, "v", "n", "1", wait_limit()),
	                  ATTACHMENT_UNSEEN);
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), INDEX_UNUSABLE);
	/* Another client's attachment proves nothing about ours. */
	tell(KUBE_FOLLOW_CHANGED, OURS("9"));
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), INDEX_UNUSABLE);
	/* It arrives after the wait has ended: the watch works again. */
	tell(KUBE_FOLLOW_CHANGED, OURS("1"));
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), 0);
	ck_assert_uint_ne(attachment_index_await(x, "v", "n", "1", wait_limit()),
	                  ATTACHMENT_UNSEEN);
	attachment_index_free(x);
	fake_reset();
}
END_TEST

enum meanwhile { OTHERS_COME, ANSWERS_COME };

/* A watch that delivers our attachment this many seconds late. */
struct lag {
	int seconds;
	enum meanwhile meanwhile;
	bool believed;
};

struct late {
	struct lag lag;
	struct attachment_index *x;
};

static void *late(void *arg)
{
	static const struct attachment_fact other = {
		.volume = "w", .node = "n", .name = "n-w", .uid = "5"
	};
	const struct late *l = arg;

	for (int i = 0; i < l->lag.seconds * 5; i++) {
		usleep(200000);
		if (l->lag.meanwhile == OTHERS_COME)
			tell(KUBE_FOLLOW_CHANGED, OURS("9"));
		else
			attachment_index_made(l->x, &other);
	}
	tell(KUBE_FOLLOW_CHANGED, OURS("1"));
	return NULL;
}

static const struct lag lags[] = {
	{ INDEX_PATIENCE_MS / 1000 + 1, OTHERS_COME, true },
	{ INDEX_PATIENCE_MS / 1000 * 2 + 1, OTHERS_COME, false },
	{ INDEX_PATIENCE_MS / 1000 + 1, ANSWERS_COME, true },
};

START_TEST(a_watch_that_lags_is_waited_for_while_others_or_answers_come_but_not_for_ever)
{
	struct late l = { .lag = lags[_i] };
	struct attachment_fact f = { .volume = "v", .node = "n", .name = "n-v", .uid = "1" };
	struct err err = ERR_INIT;
	struct attachment_index *x;
	pthread_t thread;

	fake_reset();
	x = begin();
	attachment_index_made(x, &f);
	l.x = x;
	ck_assert_int_eq(pthread_create(&thread, NULL, late, &l), 0);
	ck_assert_int_eq(attachment_index_await(x, "v", "n", "1", wait_limit()) !=
	                         ATTACHMENT_UNSEEN,
	                 l.lag.believed);
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err),
	                 l.lag.believed ? 0 : INDEX_UNUSABLE);
	pthread_join(thread, NULL);
	/* It is late, but it has arrived. */
	ck_assert_int_eq(attachment_index_ready(x, wait_limit(), &err), 0);
	attachment_index_free(x);
	fake_reset();
}
END_TEST

SUITE_TIMEOUT("attachment_index", 60, an_object_is_what_its_spec_and_labels_say,
              LOOP(a_watch_that_lags_is_waited_for_while_others_or_answers_come_but_not_for_ever,
                   ARRAY_LEN(lags)),
              texts_that_need_a_tree_are_read_as_well, it_is_attached_when_its_status_says_so,
              it_is_used_when_all_were_read_and_the_watch_works,
              while_all_are_read_anew_nothing_is_said_and_that_is_waited_for,
              who_comes_early_waits_until_all_were_read_or_he_is_called_off,
              our_own_writes_are_known_at_once_and_late_events_undo_none_of_them,
              a_new_listing_makes_all_that_was_known_void,
              a_watch_that_keeps_our_own_event_back_is_not_believed_until_it_brings_one);
