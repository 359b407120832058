/* SPDX-License-Identifier: Apache-2.0 */
/* Several volumes wait for devices of one function: which wait binds it, and which releases it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"
#include "test/lib/wait_world.h"
#include "test/lib/wait.h"

struct sharing_wait {
	pthread_t thread;
	struct wait_world *f;
	struct device_want want;
	struct device dev;
	struct err err;
	struct cancel cancel;
	_Atomic pid_t number; /* of the thread */
	int result;
};

static void *run_waiter(void *arg)
{
	struct sharing_wait *w = arg;
	struct deadline d = deadline_never();

	d.cancel = &w->cancel;
	w->number = gettid();
	w->result = device_wait(&w->f->world, &w->want, d, &w->dev, &w->err);
	return NULL;
}

static void start_waiter(struct sharing_wait *w, struct wait_world *f, uint32_t nsid)
{
	*w = (struct sharing_wait) { .f = f, .want = f->want, .cancel = CANCEL_INIT };
	w->want.nsid = nsid;
	w->want.uuid = "";
	ck_assert_int_eq(pthread_create(&w->thread, NULL, run_waiter, w), 0);
}

/* Cancels the call, so its wait fails. */
static void end_waiter(struct sharing_wait *w)
{
	cancel_set(&w->cancel);
	pthread_join(w->thread, NULL);
	ck_assert_int_eq(w->result, -1);
	ck_assert_int_eq(w->err.code, ERR_CANCELLED);
	cancel_destroy(&w->cancel);
}

START_TEST(a_wait_that_fails_leaves_the_function_to_one_that_found_its_device)
{
	struct wait_world f AUTO(wait_world_clear);
	struct sharing_wait loser, winner;

	/* Namespace 1 appears with the bind; 9 never does. */
	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	start_waiter(&loser, &f, 9);
	wait_until_idle(&loser.number); /* it has bound the function */
	start_waiter(&winner, &f, 1);
	pthread_join(winner.thread, NULL);
	cancel_destroy(&winner.cancel);
	end_waiter(&loser);
	ck_assert_msg(winner.result == 0, "%s", winner.err.msg);
	assert_writes(&f, BOUND_AND_FOUND);
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(an_abandoned_device_is_left_to_one_that_waits_for_its_neighbour)
{
	struct wait_world f AUTO(wait_world_clear);
	struct sharing_wait neighbour;

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	ck_assert_int_eq(wait_ms(&f, WAIT_LIMIT_MS), 0);
	start_waiter(&neighbour, &f, 9);
	wait_until_idle(&neighbour.number);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), 0);
	assert_writes(&f, BOUND_AND_FOUND);
	/* This wait fails as well. The disk has no node here, so it counts as in use. */
	end_waiter(&neighbour);
	ck_assert_ptr_nonnull(strstr(neighbour.err.msg, "stays bound to driver nvme"));
	assert_override(&f, "(null)");
}
END_TEST

/* The first binds and fails; the second fails later. */
static void two_waits_fail(struct wait_world *w)
{
	struct sharing_wait first, second;

	start_waiter(&first, w, 8);
	if (!w->kernel.bind_ms)
		wait_until_idle(&first.number);
	else
		usleep(100000); /* so that it binds */
	start_waiter(&second, w, 9);
	wait_until_idle(&second.number);
	wait_until_idle(&first.number);
	end_waiter(&first);
	assert_writes(w, BOUND);
	end_waiter(&second);
	assert_writes(w, BOUND_AND_BACK);
	assert_override(w, "(null)");
}

START_TEST(the_last_of_two_waits_that_fail_gives_the_function_back)
{
	struct wait_world w AUTO(wait_world_clear);

	wait_world_init(&w, "s2-vfs-unbound");
	two_waits_fail(&w);
}
END_TEST

START_TEST(a_function_that_is_being_bound_is_not_bound_a_second_time)
{
	struct wait_world w AUTO(wait_world_clear);

	/* A second bind would find the override of the first, and restore it after EBUSY. */
	wait_world_init(&w, "s2-vfs-unbound");
	w.kernel.bind_ms = 400;
	two_waits_fail(&w);
}
END_TEST

START_TEST(many_waits_on_one_function_end_in_one_state)
{
	struct wait_world f AUTO(wait_world_clear);
	struct str why AUTO(str_clear) = STR_INIT(300);
	struct sharing_wait w[8];

	wait_world_init(&f, "s2-vfs-unbound");
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		start_waiter(&w[i], &f, (uint32_t)i + 1);
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		end_waiter(&w[i]);
	assert_override(&f, "(null)");
	/* The last binding was undone. */
	ck_assert_int_eq(device_find(&f.world, &f.want, &f.dev, &why, &f.err), DEVICE_ABSENT);
	ck_assert_ptr_nonnull(strstr(why.ptr, "has no driver"));
}
END_TEST

SUITE_TIMEOUT("device_share", 120,
              a_wait_that_fails_leaves_the_function_to_one_that_found_its_device,
              an_abandoned_device_is_left_to_one_that_waits_for_its_neighbour,
              the_last_of_two_waits_that_fail_gives_the_function_back,
              a_function_that_is_being_bound_is_not_bound_a_second_time,
              many_waits_on_one_function_end_in_one_state);
