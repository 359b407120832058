/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of attachments that calls share: how many there are, and what a call may be told. */
#include "controller/attachment_list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define A "dpuvolumeattachments"
#define UNLABELLED(name, volume, node)                                                \
	"{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"dpuVolumeName\":\"" volume \
	"\",\"dpuNodeName\":\"" node "\"}}"
#define CALLS 20

static struct controller c;

/* A call: where it has found volume v. */
struct caller {
	pthread_t thread;
	struct cancel cancel;
	struct deadline d;
	size_t found;
	int rc;
	struct err err;
};

static atomic_int begun; /* lists */
static atomic_int listing, listing_most;
static unsigned hold; /* the first list goes on when so many calls have come */

static void setup(void)
{
	fake_reset();
	c = (struct controller) { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };
	c.unlabelled = attachment_list_new();
	begun = listing = listing_most = 0;
	hold = 1;
	fake_put(A, UNLABELLED("a", "v", "n1"));
	fake_put(A, UNLABELLED("b", "w", "n1"));
}

static void teardown(void)
{
	c.unlabelled = attachment_list_free(c.unlabelled);
	fake_reset();
}

static void look(void *arg, const struct attachment_table *t)
{
	struct caller *x = arg;
	struct attachment_places p AUTO(attachment_places_clear) = { .n = 0 };

	attachment_table_find(t, "v", NULL, ATTACHMENT_ANY_AGE, 10, &p);
	x->found = p.n;
}

static void *ask(void *arg)
{
	struct caller *x = arg;

	x->rc = attachment_list_ask(c.unlabelled, &c, x->d, look, x, &x->err);
	return NULL;
}

/* A list that takes as long as it takes the other calls to come. */
static void slowly(void)
{
	int now = ++listing;

	begun++;
	if (now > listing_most)
		listing_most = now;
	while (fake.lists == 1 && attachment_list_callers(c.unlabelled) < hold)
		usleep(1000);
	listing--;
}

static void start(struct caller *x, int64_t ms)
{
	*x = (struct caller) { .d = deadline_in_ms(ms), .cancel = CANCEL_INIT, .err = ERR_INIT };
	x->d.cancel = &x->cancel;
	ck_assert_int_eq(pthread_create(&x->thread, NULL, ask, x), 0);
}

START_TEST(calls_that_come_during_a_list_share_the_next_one)
{
	struct caller calls[CALLS];

	setup();
	fake.during_list = slowly;
	hold = CALLS;
	for (size_t i = 0; i < CALLS; i++)
		start(&calls[i], 60000);
	for (size_t i = 0; i < CALLS; i++) {
		pthread_join(calls[i].thread, NULL);
		ck_assert_msg(calls[i].rc == 0 && calls[i].found == 1, "%s", calls[i].err.msg);
	}
	ck_assert_int_eq(listing_most, 1);
	ck_assert_msg(fake.lists == 2, "%d lists", fake.lists);
	teardown();
}
END_TEST

START_TEST(no_call_is_told_of_a_list_that_began_before_it)
{
	struct caller first, second;

	setup();
	fake.during_list = slowly;
	hold = 2;
	start(&first, 60000);
	while (!begun)
		usleep(1000);
	start(&second, 60000);
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
	ck_assert_int_eq(fake.lists, 2);
	teardown();
}
END_TEST

START_TEST(who_lists_in_vain_fails_alone)
{
	struct caller calls[3];
	unsigned failed = 0;

	setup();
	fake.during_list = slowly;
	hold = 3;
	fake_refuse("list", A, ERR_UNAVAILABLE, "connection refused");
	for (size_t i = 0; i < 3; i++)
		start(&calls[i], 60000);
	for (size_t i = 0; i < 3; i++) {
		pthread_join(calls[i].thread, NULL);
		failed += calls[i].rc == -1 && calls[i].err.code == ERR_UNAVAILABLE;
	}
	/* Each has tried for itself, since nobody knows why another one was refused. */
	ck_assert_uint_eq(failed, 3);
	ck_assert_int_eq(fake.lists, 3);
	ck_assert_int_eq(listing_most, 1);
	teardown();
}
END_TEST

static atomic_bool others_left;

static void for_long(void)
{
	begun++;
	while (!others_left)
		usleep(1000);
}

START_TEST(a_call_leaves_when_its_time_is_over_or_it_is_cancelled)
{
	struct caller first, late, cancelled;

	setup();
	fake.during_list = for_long;
	start(&first, 60000);
	while (!begun)
		usleep(1000);
	start(&late, 50);
	start(&cancelled, 60000);
	cancel_set(&cancelled.cancel);
	pthread_join(late.thread, NULL);
	pthread_join(cancelled.thread, NULL);
	others_left = true;
	pthread_join(first.thread, NULL);
	ck_assert_int_eq(first.rc, 0);
	ck_assert_int_eq(late.err.code, ERR_DEADLINE);
	ck_assert_int_eq(cancelled.err.code, ERR_CANCELLED);
	ck_assert_str_eq(late.err.msg,
	                 "the attachments of namespace dpf are being listed, since they cannot be "
	                 "watched; retry");
	ck_assert_int_eq(fake.lists, 1);
	teardown();
}
END_TEST

SUITE_TIMEOUT("attachment_list", 60, calls_that_come_during_a_list_share_the_next_one,
              no_call_is_told_of_a_list_that_began_before_it, who_lists_in_vain_fails_alone,
              a_call_leaves_when_its_time_is_over_or_it_is_cancelled);
