/* SPDX-License-Identifier: Apache-2.0 */
/* One operation per volume. */
#include <string.h>

#include "common/keylock.h"
#include "common/mem.h"
#include "test/lib/suite.h"

START_TEST(a_second_operation_is_told_what_runs)
{
	struct keylock *k = keylock_new();
	struct keylock_hold *a, *b = NULL, *c;
	struct err err = ERR_INIT;

	ck_assert_int_eq(keylock_take(k, "pvc-1", "NodeStageVolume", &a, &err), 0);
	ck_assert_int_eq(keylock_take(k, "pvc-1", "NodePublishVolume", &b, &err), -1);
	ck_assert_ptr_null(b);
	ck_assert_int_eq(err.code, ERR_ABORTED);
	ck_assert_ptr_nonnull(strstr(err.msg, "volume pvc-1: NodeStageVolume has been running"));
	err_clear(&err);
	ck_assert_int_eq(keylock_take(k, "pvc-2", "NodePublishVolume", &c, &err), 0);
	keylock_release(a);
	ck_assert_int_eq(keylock_take(k, "pvc-1", "NodePublishVolume", &b, &err), 0);
	keylock_release(b);
	keylock_release(c);
	keylock_free(k);
}
END_TEST

struct racer {
	struct keylock *lock;
	int *inside, *entered;
};

static void *race(void *arg)
{
	struct racer *r = arg;

	for (int i = 0; i < 20000; i++) {
		struct keylock_hold *h;
		struct err err = ERR_INIT;

		if (keylock_take(r->lock, "k", "race", &h, &err))
			continue;
		ck_assert_int_eq((*r->inside)++, 0);
		(*r->entered)++;
		(*r->inside)--;
		keylock_release(h);
	}
	return NULL;
}

START_TEST(threads_exclude_each_other)
{
	int inside = 0, entered = 0;
	struct racer r = { keylock_new(), &inside, &entered };
	pthread_t t[4];

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_create(&t[i], NULL, race, &r);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	ck_assert_int_gt(entered, 0);
	keylock_free(r.lock);
}
END_TEST

/*
 * More than the number of buckets, so that holds share one; released from its front, middle and
 * end.
 */
START_TEST(thousands_of_holds_are_kept_apart)
{
	enum { N = 5000, STEP = 1777 }; /* without a common divisor: each is visited once */
	static struct keylock_hold *held[N];
	struct keylock *k = keylock_new();
	struct keylock_hold *second;
	struct err err = ERR_INIT;

	for (int i = 0; i < N; i++) {
		char *key AUTO(free) = xasprintf("pvc-%d", i);

		ck_assert_int_eq(keylock_take(k, key, "CreateVolume", &held[i], &err), 0);
	}
	for (int n = 0, i = 0; n < N; n++, i = (i + STEP) % N) {
		char *key AUTO(free) = xasprintf("pvc-%d", i);

		ck_assert_int_eq(keylock_take(k, key, "DeleteVolume", &second, &err), -1);
		err_clear(&err);
		keylock_release(held[i]);
		ck_assert_int_eq(keylock_take(k, key, "DeleteVolume", &held[i], &err), 0);
		if (n % 2)
			keylock_release(TAKE(held[i]));
	}
	for (int i = 0; i < N; i++)
		if (held[i])
			keylock_release(held[i]);
	keylock_free(k);
}
END_TEST

SUITE("keylock", a_second_operation_is_told_what_runs, threads_exclude_each_other,
      thousands_of_holds_are_kept_apart);
