/* SPDX-License-Identifier: Apache-2.0 */
/* The number of requests per second, and their order, by a clock that the test sets. */
#include "kube/kube_limiter.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/suite.h"

#define SECOND INT64_C(1000000000)
#define START SECOND

enum { CREATE = 1, DETACH = 2, OTHER = 3 };

static void ask_as(struct kube_limiter *l, unsigned kind, struct kube_turn *t, int64_t now)
{
	kube_begin(kind);
	ck_assert(!kube_limiter_ask(l, t, now));
}

START_TEST(a_burst_passes_at_once_and_what_follows_is_spaced)
{
	struct kube_limiter l;
	struct kube_turn t[3];

	kube_limiter_init(&l, 10, 3);
	for (int i = 0; i < 3; i++)
		ck_assert(kube_limiter_ask(&l, &t[0], START));
	for (int i = 0; i < 3; i++)
		ask_as(&l, OTHER, &t[i], START);
	ck_assert_int_eq(kube_limiter_grant(&l, START) / 1000, 100000);
	ck_assert(!t[0].granted);
	ck_assert_int_eq(kube_limiter_grant(&l, START + SECOND / 10) / 1000, 100000);
	ck_assert(t[0].granted && !t[1].granted);
	ck_assert_int_eq(kube_limiter_grant(&l, START + SECOND), INT64_MAX);
	ck_assert(t[1].granted && t[2].granted);
	/* An hour without requests permits one burst, and no more. */
	for (int i = 0; i < 3; i++)
		ck_assert(kube_limiter_ask(&l, &t[0], START + 3600 * SECOND));
	ask_as(&l, OTHER, &t[0], START + 3600 * SECOND);
	kube_limiter_leave(&l, &t[0]);
	kube_limiter_destroy(&l);
}
END_TEST

START_TEST(without_a_limit_nobody_waits)
{
	struct kube_limiter l;
	struct kube_turn t;

	kube_limiter_init(&l, 0, 0);
	for (int i = 0; i < 10000; i++)
		ck_assert(kube_limiter_ask(&l, &t, START));
	kube_limiter_destroy(&l);
}
END_TEST

/* Empties the bucket, so that callers wait. */
static void exhaust(struct kube_limiter *l)
{
	struct kube_turn t;

	kube_limiter_init(l, 1, 1);
	ck_assert(kube_limiter_ask(l, &t, START));
}

START_TEST(a_flood_of_one_kind_keeps_another_waiting_for_one_turn_only)
{
	enum { FLOOD = 2000 };
	struct kube_turn *flood AUTO(free) = xcalloc(FLOOD, sizeof(*flood));
	struct kube_turn detach[2];
	struct kube_limiter l;
	int created = 0;

	exhaust(&l);
	for (int i = 0; i < FLOOD; i++)
		ask_as(&l, CREATE, &flood[i], START);
	for (int i = 0; i < 2; i++)
		ask_as(&l, DETACH, &detach[i], START);
	for (int second = 1; second <= 4; second++)
		kube_limiter_grant(&l, START + second * SECOND);
	ck_assert(detach[0].granted && detach[1].granted);
	for (int i = 0; i < FLOOD; i++)
		created += flood[i].granted;
	ck_assert_int_eq(created, 2);
	for (int i = 0; i < FLOOD; i++)
		kube_limiter_leave(&l, &flood[i]);
	ck_assert_int_eq(kube_limiter_grant(&l, START + 100 * SECOND), INT64_MAX);
	kube_limiter_destroy(&l);
}
END_TEST

struct later {
	struct kube_limiter *limiter;
	struct kube_turn turn[10];
};

static void *begin_later(void *arg)
{
	struct later *later = arg;

	for (size_t i = 0; i < ARRAY_LEN(later->turn); i++)
		ask_as(later->limiter, CREATE, &later->turn[i], START);
	return NULL;
}

/* Ten calls of others. */
static void begin_others(struct later *later)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, begin_later, later), 0);
	pthread_join(thread, NULL);
}

/* Otherwise a flood of calls with two requests each would all be half done at their deadlines. */
START_TEST(work_that_has_begun_goes_before_work_that_begins)
{
	struct kube_turn first, second;
	struct kube_limiter l;
	struct later earlier = { .limiter = &l }, later = { .limiter = &l };

	exhaust(&l);
	begin_others(&earlier);
	ask_as(&l, CREATE, &first, START);
	begin_others(&later);
	for (int i = 1; i <= 11; i++)
		kube_limiter_grant(&l, START + i * SECOND);
	ck_assert(earlier.turn[9].granted && first.granted && !later.turn[0].granted);
	/* The second request goes to the front, and a third into the middle. */
	ck_assert(!kube_limiter_ask(&l, &second, START + 11 * SECOND));
	begin_others(&earlier);
	ck_assert_ptr_eq(l.first[CREATE], &second);
	kube_limiter_grant(&l, START + 12 * SECOND);
	ck_assert(second.granted && !later.turn[0].granted);
	kube_begin(CREATE);
	for (size_t i = 0; i < ARRAY_LEN(later.turn); i++)
		kube_limiter_leave(&l, &later.turn[i]);
	begin_others(&later);
	ck_assert(!kube_limiter_ask(&l, &first, START + 12 * SECOND));
	ck_assert_ptr_eq(first.before, &earlier.turn[9]);
	ck_assert_ptr_eq(first.after, &later.turn[0]);
	for (int i = 0; i < 100; i++)
		kube_limiter_grant(&l, START + (100 + i) * SECOND);
	ck_assert(later.turn[9].granted);
	kube_limiter_destroy(&l);
}
END_TEST

START_TEST(who_gives_up_takes_no_turn_and_leaves_the_others_in_order)
{
	struct kube_turn t[5];
	struct kube_limiter l;

	exhaust(&l);
	for (int i = 0; i < 5; i++)
		ask_as(&l, CREATE, &t[i], START);
	kube_limiter_leave(&l, &t[0]);
	kube_limiter_leave(&l, &t[2]);
	kube_limiter_leave(&l, &t[4]);
	kube_limiter_grant(&l, START + SECOND);
	ck_assert(t[1].granted && !t[3].granted);
	ck_assert_int_eq(kube_limiter_grant(&l, START + 2 * SECOND), INT64_MAX);
	ck_assert(t[3].granted);
	ck_assert(!t[0].granted && !t[2].granted && !t[4].granted);
	kube_limiter_destroy(&l);
}
END_TEST

/* ---- with threads ---- */

struct waiter {
	pthread_t thread;
	struct kube_limiter *limiter;
	struct cancel cancel;
	struct deadline d;
	unsigned kind;
	struct err err;
	int rc;
};

static void *wait_for_turn(void *arg)
{
	struct waiter *w = arg;

	kube_begin(w->kind);
	w->rc = kube_limiter_wait(w->limiter, w->d, &w->err);
	return NULL;
}

static void start_waiters(struct waiter *w, int n, struct kube_limiter *l, int64_t ms)
{
	for (int i = 0; i < n; i++) {
		w[i] = (struct waiter) { .limiter = l, .kind = (unsigned)i };
		cancel_init(&w[i].cancel);
		w[i].d = deadline_in_ms(ms);
		w[i].d.cancel = &w[i].cancel;
		ck_assert_int_eq(pthread_create(&w[i].thread, NULL, wait_for_turn, &w[i]), 0);
	}
}

static int joined_with(struct waiter *w, int n, int code)
{
	int found = 0;

	for (int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		found += w[i].rc == 0 ? code == 0 : (int)w[i].err.code == code;
		cancel_destroy(&w[i].cancel);
	}
	return found;
}

/* One thread slept until the next token, and another one takes over. */
START_TEST(callers_that_go_away_stop_nobody_elses_turns)
{
	enum { N = 200 };
	struct waiter *w AUTO(free) = xcalloc(N, sizeof(*w));
	struct kube_limiter l;

	kube_limiter_init(&l, 500, 1);
	start_waiters(w, N, &l, 25000);
	for (int i = 0; i < N; i += 2)
		cancel_set(&w[i].cancel);
	ck_assert_int_ge(joined_with(w, N, 0), N / 2);
	ck_assert_ptr_null(l.keeper);
	kube_limiter_destroy(&l);
}
END_TEST

START_TEST(a_turn_that_does_not_come_in_time_says_what_it_waited_for)
{
	struct kube_limiter l;
	struct waiter w[3];

	kube_limiter_init(&l, 0.001, 1);
	start_waiters(w, 1, &l, 25000);
	ck_assert_int_eq(joined_with(w, 1, 0), 1);
	start_waiters(w, 3, &l, 50);
	ck_assert_int_eq(joined_with(w, 3, ERR_DEADLINE), 3);
	ck_assert_ptr_nonnull(strstr(w[0].err.msg, "--kube-api-qps"));
	kube_limiter_destroy(&l);
}
END_TEST

START_TEST(the_end_of_the_client_ends_all_waits)
{
	struct kube_limiter l;
	struct waiter w[20];

	kube_limiter_init(&l, 0.001, 1);
	start_waiters(w, 1, &l, 25000);
	ck_assert_int_eq(joined_with(w, 1, 0), 1);
	start_waiters(w, 20, &l, 25000);
	kube_limiter_stop(&l);
	ck_assert_int_eq(joined_with(w, 20, ERR_CANCELLED), 20);
	kube_limiter_destroy(&l);
}
END_TEST

SUITE("kube_limiter", a_burst_passes_at_once_and_what_follows_is_spaced,
      without_a_limit_nobody_waits, a_flood_of_one_kind_keeps_another_waiting_for_one_turn_only,
      work_that_has_begun_goes_before_work_that_begins,
      who_gives_up_takes_no_turn_and_leaves_the_others_in_order,
      callers_that_go_away_stop_nobody_elses_turns,
      a_turn_that_does_not_come_in_time_says_what_it_waited_for,
      the_end_of_the_client_ends_all_waits);
