/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of attachments that calls share: their number, and the answers that a call may get. */
#include "controller/attachment_lists.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define A "dpuvolumeattachments"
#define LABELS \
	"\"labels\":{\"csi.snap.nvidia.com/volume\":\"%s\",\"csi.snap.nvidia.com/node\":\"%s\"},"
#define CALLS 20
#define THERE 20 /* attachments with labels, and as many without */

static struct controller c;

/* A call: the number of attachments that it has found of its volume, or on its node. */
struct caller {
	pthread_t thread;
	struct cancel cancel;
	struct deadline d;
	enum attachment_listed which;
	char name[64];
	size_t found;
	int rc;
	struct err err;
};

static enum attachment_listed kind; /* of all calls of a test */
static atomic_int begun;            /* lists */
static atomic_int listing, listing_most;
static unsigned hold; /* the first list continues when this many calls have arrived */

#define LETTERS "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcd"

/* As long as a label's value can be, so that few of them fill a URL. */
static void name_of(char ret[64], const char *what, unsigned i)
{
	ck_assert_int_eq(snprintf(ret, 64, "%s-%02u-" LETTERS, what, i), 63);
}

static void put(unsigned i, bool labelled)
{
	char *labels AUTO(free) = NULL, *text AUTO(free) = NULL;
	char volume[64], node[64];

	name_of(volume, labelled ? "v" : "u", i);
	name_of(node, "n", i);
	labels = labelled ? xasprintf(LABELS, volume, node) : xstrdup("");
	text = xasprintf("{\"metadata\":{%s\"name\":\"%s-%u\"},\"spec\":{\"dpuVolumeName\":\"%s\","
	                 "\"dpuNodeName\":\"%s\"}}",
	                 labels, labelled ? "with" : "without", i, volume, node);
	fake_put(A, text);
}

static void setup(void)
{
	fake_reset();
	c = (struct controller) { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };
	c.lists = attachment_lists_new();
	kind = ATTACHMENTS_UNLABELLED;
	begun = listing = listing_most = 0;
	hold = 1;
	for (unsigned i = 0; i < THERE; i++) {
		put(i, true);
		put(i, false);
	}
}

static void teardown(void)
{
	c.lists = attachment_lists_free(c.lists);
	fake_reset();
}

static void look(void *arg, const struct attachment_table *t)
{
	struct caller *x = arg;
	struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };

	if (x->which == ATTACHMENTS_ON_NODE) {
		x->found = attachment_table_count(t, x->name).all;
		return;
	}
	attachment_table_find(t, x->name, NULL, ATTACHMENT_ANY_AGE, 10, &p);
	x->found = p.n;
}

static void *ask(void *arg)
{
	struct caller *x = arg;

	x->rc = attachment_lists_ask(c.lists, &c, x->which, x->name, x->d, look, x, &x->err);
	return NULL;
}

/* A list that lasts until the other calls have arrived. */
static void slowly(void)
{
	int now = ++listing;

	begun++;
	if (now > listing_most)
		listing_most = now;
	while (fake.lists == 1 && attachment_lists_callers(c.lists, kind) < hold)
		usleep(1000);
	listing--;
}

/* The i-th call, which looks for the i-th attachment. */
static void start(struct caller *x, unsigned i, int64_t ms)
{
	static const char *const first[] = { "v", "n", "u" };

	*x = (struct caller) {
		.d = deadline_in_ms(ms), .cancel = CANCEL_INIT, .which = kind, .err = ERR_INIT
	};
	name_of(x->name, first[kind], i);
	x->d.cancel = &x->cancel;
	ck_assert_int_eq(pthread_create(&x->thread, NULL, ask, x), 0);
}

static void wait_for_list(int n)
{
	while (begun < n)
		usleep(1000);
}

/*
 * All arrive during the first list, which serves only the first call, and each finds its
 * attachment, if it exists.
 */
static void answer_all(struct caller *calls, unsigned n, int lists)
{
	fake.during_list = slowly;
	hold = n;
	start(&calls[0], 0, 60000);
	wait_for_list(1);
	for (unsigned i = 1; i < n; i++)
		start(&calls[i], i, 60000);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(calls[i].thread, NULL);
		ck_assert_msg(calls[i].rc == 0 && calls[i].found == (i < THERE),
		              "kind %u, %u: %zu %s", kind, i, calls[i].found, calls[i].err.msg);
	}
	ck_assert_int_eq(listing_most, 1);
	ck_assert_msg(fake.lists == lists, "%d lists", fake.lists);
}

START_TEST(calls_that_come_during_a_list_share_the_next_one)
{
	for (unsigned k = 0; k < ATTACHMENTS_LISTED_N; k++) {
		struct caller calls[CALLS];

		setup();
		kind = k;
		answer_all(calls, CALLS, 2);
		teardown();
	}
}
END_TEST

#define MANY 100
#define IN_ONE 90 /* names in one selector */

START_TEST(a_list_asks_for_as_many_as_an_address_has_room_for)
{
	struct caller calls[MANY];

	setup();
	kind = ATTACHMENTS_OF_VOLUME;
	answer_all(calls, MANY, 3);
	teardown();
}
END_TEST

START_TEST(no_call_is_told_of_a_list_that_began_before_it)
{
	struct caller first, second;

	setup();
	fake.during_list = slowly;
	hold = 2;
	start(&first, 0, 60000);
	wait_for_list(1);
	start(&second, 0, 60000);
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
	for (unsigned i = 0; i < 3; i++)
		start(&calls[i], i, 60000);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(calls[i].thread, NULL);
		failed += calls[i].rc == -1 && calls[i].err.code == ERR_UNAVAILABLE;
	}
	/* Each has listed for itself, since the reason for another call's refusal is unknown. */
	ck_assert_uint_eq(failed, 3);
	ck_assert_int_eq(fake.lists, 3);
	ck_assert_int_eq(listing_most, 1);
	fake.n_refusals = 0;
	start(&calls[0], 0, 60000);
	pthread_join(calls[0].thread, NULL);
	ck_assert_msg(calls[0].rc == 0 && calls[0].found == 1, "%s", calls[0].err.msg);
	teardown();
}
END_TEST

static atomic_int may_end; /* lists */

static void until_told(void)
{
	int mine = ++begun;

	while (may_end < mine)
		usleep(1000);
}

static void wait_for_callers(unsigned n)
{
	while (attachment_lists_callers(c.lists, kind) < n)
		usleep(1000);
}

START_TEST(a_call_leaves_when_its_time_is_over_or_it_is_cancelled)
{
	struct caller first, late, cancelled;

	setup();
	may_end = 0;
	fake.during_list = until_told;
	start(&first, 0, 60000);
	wait_for_list(1);
	start(&late, 1, 50);
	pthread_join(late.thread, NULL);
	start(&cancelled, 2, 60000);
	cancel_set(&cancelled.cancel);
	pthread_join(cancelled.thread, NULL);
	may_end = 1;
	pthread_join(first.thread, NULL);
	ck_assert_int_eq(first.rc, 0);
	ck_assert_int_eq(late.err.code, ERR_DEADLINE);
	ck_assert_int_eq(cancelled.err.code, ERR_CANCELLED);
	ck_assert_str_eq(
		late.err.msg,
		"the attachments of namespace dpf are being listed because they cannot "
		"be watched: the driver's log has the reason (calls that wait for it: 1); retry");
	ck_assert_int_eq(fake.lists, 1);
	teardown();
}
END_TEST

START_TEST(those_behind_a_call_that_has_left_are_answered)
{
	struct caller first, gone, second, in_its_list, third;

	setup();
	may_end = 0;
	fake.during_list = until_told;
	start(&first, 0, 60000);
	wait_for_list(1);
	start(&gone, 1, 60000);
	wait_for_callers(2);
	start(&second, 2, 60000);
	wait_for_callers(3);
	start(&in_its_list, 3, 60000);
	wait_for_callers(4);
	/* The call with the next turn leaves, and later one for which another call lists. */
	cancel_set(&gone.cancel);
	pthread_join(gone.thread, NULL);
	may_end = 1;
	wait_for_list(2);
	start(&third, 4, 60000);
	wait_for_callers(3);
	cancel_set(&in_its_list.cancel);
	pthread_join(in_its_list.thread, NULL);
	may_end = 3;
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
	pthread_join(third.thread, NULL);
	ck_assert_int_eq(gone.err.code, ERR_CANCELLED);
	ck_assert_int_eq(in_its_list.err.code, ERR_CANCELLED);
	ck_assert(first.found == 1 && second.found == 1 && third.found == 1);
	ck_assert_int_eq(fake.lists, 3);
	teardown();
}
END_TEST

#define IMPATIENT 8
#define TIMES 400

static void for_a_moment(void)
{
	usleep(300);
}

/* Many calls, each of which may get its turn, or its answer, while it leaves. */
static void *ask_impatiently(void *arg)
{
	unsigned *i = arg;

	for (unsigned k = 0; k < TIMES; k++) {
		struct caller x = { .which = kind, .err = ERR_INIT };

		name_of(x.name, "v", *i);
		x.d = deadline_in_ms(1 + (k + *i) % 2);
		ask(&x);
		ck_assert_msg(x.rc == 0 ? x.found == 1 : x.err.code == ERR_DEADLINE, "%d: %zu %s",
		              x.rc, x.found, x.err.msg);
		err_clear(&x.err);
	}
	return NULL;
}

START_TEST(no_turn_is_lost_among_calls_that_leave)
{
	struct caller last;
	pthread_t threads[IMPATIENT];
	unsigned numbers[IMPATIENT];

	setup();
	kind = ATTACHMENTS_OF_VOLUME;
	fake.during_list = for_a_moment;
	for (unsigned i = 0; i < IMPATIENT; i++) {
		numbers[i] = i;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_impatiently, &numbers[i]),
		                 0);
	}
	for (unsigned i = 0; i < IMPATIENT; i++)
		pthread_join(threads[i], NULL);
	start(&last, 0, 10000);
	pthread_join(last.thread, NULL);
	ck_assert_msg(last.rc == 0 && last.found == 1, "%s", last.err.msg);
	teardown();
}
END_TEST

SUITE_TIMEOUT("attachment_lists", 60, calls_that_come_during_a_list_share_the_next_one,
              a_list_asks_for_as_many_as_an_address_has_room_for,
              no_call_is_told_of_a_list_that_began_before_it, who_lists_in_vain_fails_alone,
              a_call_leaves_when_its_time_is_over_or_it_is_cancelled,
              those_behind_a_call_that_has_left_are_answered,
              no_turn_is_lost_among_calls_that_leave);
