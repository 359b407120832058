/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, order, watchers, history, and many writers at once. */
#include "test/sim/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/kinds/object.h"

static struct json *object(const char *ns, const char *name)
{
	struct json *o = json_object();

	json_set_str(json_sub(o, "metadata"), "namespace", ns);
	json_set_str(json_sub(o, "metadata"), "name", name);
	return o;
}

static struct object_version *put(struct store *s, const char *ns, const char *name)
{
	struct json *o AUTO(json_free) = object(ns, name);
	struct object_version *v = NULL;

	ck_assert_int_eq(store_put(s, RES(VOLUMES), o, NULL, &v), 0);
	return v;
}

static void put_only(struct store *s, const char *ns, const char *name)
{
	version_unref(put(s, ns, name));
}

START_TEST(an_object_is_stored_once_and_changed_only_from_its_newest_version)
{
	struct store *s = store_new(10);
	struct object_version *first AUTO(version_unref) = put(s, "ns", "a");
	struct object_version *second AUTO(version_unref) = NULL;
	struct json *o AUTO(json_free) = version_parse(first);

	ck_assert_int_eq(store_put(s, RES(VOLUMES), o, NULL, NULL), STORE_CHANGED);
	json_set_str(o, "spec", "x");
	ck_assert_int_eq(store_put(s, RES(VOLUMES), o, first, &second), 0);
	ck_assert_uint_eq(second->rv, first->rv + 1);
	ck_assert_int_eq(store_put(s, RES(VOLUMES), o, first, NULL), STORE_CHANGED);
	ck_assert_int_eq(store_remove(s, first), STORE_CHANGED);
	ck_assert_int_eq(store_remove(s, second), 0);
	ck_assert_int_eq(store_remove(s, second), STORE_CHANGED);
	ck_assert_ptr_null(store_get(s, RES(VOLUMES), "ns", "a"));
	store_free(s);
}
END_TEST

START_TEST(lists_are_sorted_by_namespace_and_name_and_can_be_paged)
{
	static const char *const names[] = { "c", "a", "b", "d" };
	struct store *s = store_new(10);
	struct str seen AUTO(str_clear) = STR_INIT(100);
	char after[32] = "";

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		put_only(s, "two", names[i]);
	put_only(s, "one", "z");
	put_only(s, "three", "a");
	for (;;) {
		struct store_page page AUTO(store_page_clear) = { 0 };
		struct store_query q = {
			.res = RES(VOLUMES), .ns = "two", .limit = 3, .after = *after ? after : NULL
		};

		store_list(s, &q, &page);
		for (size_t i = 0; i < page.n; i++)
			str_add(&seen, page.v[i]->name);
		str_addf(&seen, "+%zu ", page.left);
		if (!page.left)
			break;
		snprintf(after, sizeof(after), "%s/%s", page.v[page.n - 1]->ns,
		         page.v[page.n - 1]->name);
	}
	ck_assert_str_eq(seen.ptr, "abc+1 d+0 ");
	store_free(s);
}
END_TEST

START_TEST(a_watcher_sees_every_change_of_its_kind_in_order)
{
	struct store *s = store_new(10);
	struct object_version *v AUTO(version_unref) = NULL;
	struct watcher *w = NULL;
	struct event e = { 0 };

	put_only(s, "ns", "before");
	ck_assert_int_eq(store_watch(s, RES(VOLUMES), store_rv(s), &w), 0);
	ck_assert_int_eq(watcher_next(w, &e), NEWS_NONE);
	v = put(s, "ns", "a");
	{
		struct json *node AUTO(json_free) = object(NULL, "n");

		ck_assert_int_eq(store_put(s, RES(NODES), node, NULL, NULL), 0);
	}
	ck_assert_int_eq(store_remove(s, v), 0);
	ck_assert_int_eq(watcher_next(w, &e), NEWS_EVENT);
	ck_assert_int_eq(e.type, EVENT_ADDED);
	ck_assert_ptr_null(e.before);
	event_clear(&e);
	ck_assert_int_eq(watcher_next(w, &e), NEWS_EVENT);
	ck_assert_int_eq(e.type, EVENT_DELETED);
	ck_assert_str_eq(e.now->name, "a");
	ck_assert_uint_eq(e.now->rv, v->rv + 2);
	event_clear(&e);
	ck_assert_int_eq(watcher_next(w, &e), NEWS_NONE);
	ck_assert_uint_eq(watcher_rv(w), store_rv(s));
	watcher_close(w);
	store_free(s);
}
END_TEST

START_TEST(history_that_is_no_longer_kept_is_told_and_not_skipped)
{
	struct store *s = store_new(3);
	uint64_t start = store_rv(s);
	struct watcher *w = NULL, *slow = NULL;
	struct event e = { 0 };
	char name[16];

	ck_assert_int_eq(store_watch(s, NULL, start, &slow), 0);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		put_only(s, "ns", name);
	}
	ck_assert_int_eq(watcher_next(slow, &e), NEWS_LOST);
	ck_assert_int_eq(store_watch(s, NULL, start, &w), STORE_EXPIRED);
	ck_assert(!store_keeps(s, start));
	ck_assert_int_eq(store_watch(s, NULL, start + 1, &w), 0);
	for (int i = 1; i < 4; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		ck_assert_int_eq(watcher_next(w, &e), NEWS_EVENT);
		ck_assert_str_eq(e.now->name, name);
		event_clear(&e);
	}
	put_only(s, "ns", "x");
	store_expire(s);
	ck_assert_int_eq(watcher_next(w, &e), NEWS_LOST);
	watcher_close(w);
	watcher_close(slow);
	store_free(s);
}
END_TEST

#define WRITERS 4
#define ROUNDS 200

static void *write_often(void *arg)
{
	struct store *s = arg;

	for (int done = 0; done < ROUNDS;) {
		struct object_version *v AUTO(version_unref) =
			store_get(s, RES(VOLUMES), "ns", "a");
		struct json *o AUTO(json_free) = version_parse(v);
		struct err err = ERR_INIT;
		int64_t n = 0;

		IGNORE_RESULT(json_get_i64(o, "n", &n, &err));
		json_set_int(o, "n", n + 1);
		done += store_put(s, RES(VOLUMES), o, v, NULL) == 0;
	}
	return NULL;
}

START_TEST(writers_never_lose_each_others_changes)
{
	struct store *s = store_new(WRITERS * ROUNDS + 1);
	pthread_t threads[WRITERS];
	struct watcher *w = NULL;
	struct event e = { 0 };
	struct object_version *v AUTO(version_unref) = NULL;
	struct json *o AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t n = 0;
	uint64_t start, events = 0;

	put_only(s, "ns", "a");
	start = store_rv(s);
	ck_assert_int_eq(store_watch(s, RES(VOLUMES), start, &w), 0);
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, write_often, s);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	while (watcher_next(w, &e) == NEWS_EVENT) {
		ck_assert_uint_eq(e.rv, start + ++events);
		event_clear(&e);
	}
	ck_assert_uint_eq(events, WRITERS * ROUNDS);
	v = store_get(s, RES(VOLUMES), "ns", "a");
	o = version_parse(v);
	ck_assert_int_eq(json_get_i64(o, "n", &n, &err), 0);
	ck_assert_int_eq(n, WRITERS * ROUNDS);
	watcher_close(w);
	store_free(s);
}
END_TEST

SUITE("sim store", an_object_is_stored_once_and_changed_only_from_its_newest_version,
      lists_are_sorted_by_namespace_and_name_and_can_be_paged,
      a_watcher_sees_every_change_of_its_kind_in_order,
      history_that_is_no_longer_kept_is_told_and_not_skipped,
      writers_never_lose_each_others_changes);
