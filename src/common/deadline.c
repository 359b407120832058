/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines on CLOCK_MONOTONIC, and the cancellation that is passed with them. Owns nothing; any
 * thread may call cancel_set().
 */
#include "common/deadline.h"

#include <assert.h>
#include <limits.h>

#include "common/cleanup.h"
#include "common/thread.h"

#define NS_PER_S 1000000000

void cancel_init(struct cancel *c)
{
	*c = (struct cancel)CANCEL_INIT;
}

void cancel_destroy(struct cancel *c)
{
	assert(!c->wake || c->set);
	pthread_mutex_destroy(&c->lock);
}

void cancel_set(struct cancel *c)
{
	WITH_LOCK(&c->lock);
	if (c->set)
		return;
	c->set = true;
	if (c->wake)
		c->wake(c->arg);
}

bool cancel_is_set(struct cancel *c)
{
	if (!c)
		return false;
	WITH_LOCK(&c->lock);
	return c->set;
}

bool cancel_on_set(struct cancel *c, void (*fn)(void *arg), void *arg)
{
	if (!c)
		return false;
	WITH_LOCK(&c->lock);
	assert(!fn || !c->wake || c->set); /* one waiter at a time */
	c->wake = fn;
	c->arg = arg;
	return c->set;
}

int64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

struct deadline deadline_never(void)
{
	return (struct deadline) { .at = DEADLINE_NEVER };
}

struct deadline deadline_in_ms(int64_t ms)
{
	return deadline_clamp(deadline_never(), ms);
}

struct deadline deadline_clamp(struct deadline d, int64_t ms)
{
	int64_t now = monotonic_ns(), at;

	if (ms < 0)
		ms = 0;
	if (ms > (DEADLINE_NEVER - now) / NS_PER_MS)
		return d;
	at = now + ms * NS_PER_MS;
	if (at < d.at)
		d.at = at;
	return d;
}

struct deadline deadline_reserve(struct deadline d, int64_t min_ms, int percent)
{
	int64_t left, reserve;

	if (d.at == DEADLINE_NEVER)
		return d;
	left = d.at - monotonic_ns();
	reserve = left / 100 * percent;
	if (reserve < min_ms * NS_PER_MS)
		reserve = min_ms * NS_PER_MS;
	/* At most half of a short deadline is reserved. */
	if (reserve > left / 2)
		reserve = left > 0 ? left / 2 : 0;
	d.at -= reserve;
	return d;
}

int deadline_left_ms(struct deadline d)
{
	int64_t left;

	if (d.at == DEADLINE_NEVER)
		return INT_MAX;
	left = d.at - monotonic_ns();
	if (left <= 0)
		return 0;
	left = (left + NS_PER_MS - 1) / NS_PER_MS;
	return left > INT_MAX ? INT_MAX : (int)left;
}

bool deadline_passed(struct deadline d)
{
	return deadline_left_ms(d) == 0;
}

bool deadline_given_up(struct deadline d)
{
	return deadline_passed(d) || cancel_is_set(d.cancel);
}

struct timespec deadline_timespec(struct deadline d)
{
	/* A year represents "never": no wait is longer, and the sum cannot overflow. */
	int64_t at =
		d.at == DEADLINE_NEVER ? monotonic_ns() + (int64_t)365 * 86400 * NS_PER_S : d.at;

	return (struct timespec) { .tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S };
}

int deadline_check(struct deadline d, struct err *err, const char *what)
{
	if (cancel_is_set(d.cancel))
		return err_set(err, deadline_passed(d) ? ERR_DEADLINE : ERR_CANCELLED,
		               deadline_passed(d) ? "%s: time ran out"
		                                  : "%s: the caller cancelled the call",
		               what);
	if (deadline_passed(d))
		return err_set(err, ERR_DEADLINE, "%s: time ran out", what);
	return 0;
}

static bool is_posted(sem_t *sem, int64_t at)
{
	struct timespec until = deadline_timespec((struct deadline) { .at = at });
	int rc;

	do
		rc = at == DEADLINE_NEVER ? sem_wait(sem)
		                          : sem_clockwait(sem, CLOCK_MONOTONIC, &until);
	while (rc && errno == EINTR);
	return rc == 0;
}

bool sem_wait_until(sem_t *sem, int64_t at)
{
	int64_t rest_at = deadline_in_ms(THREAD_REST_AFTER_MS).at;

	if (at <= rest_at)
		return is_posted(sem, at);
	if (is_posted(sem, rest_at))
		return true;
	thread_rest();
	return is_posted(sem, at);
}

/* Runs with the cancellation's lock held and takes no other lock. */
static void post_sem(void *sem)
{
	sem_post(sem);
}

void sem_wait_deadline(sem_t *sem, struct deadline d)
{
	if (!cancel_on_set(d.cancel, post_sem, sem))
		sem_wait_until(sem, d.at);
	(void)cancel_on_set(d.cancel, NULL, NULL);
}

int deadline_sleep(struct deadline d, int64_t ms, struct err *err, const char *what)
{
	sem_t never;

	sem_init(&never, 0, 0);
	sem_wait_deadline(&never, deadline_clamp(d, ms));
	sem_destroy(&never);
	return deadline_check(d, err, what);
}
