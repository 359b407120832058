/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading at a time, shared by all who wait for it. Without that, forty calls beside 50,000
 * attachments of the Go plugin would be forty walks of the API server through all of them, at the
 * very moment when its watch does not work.
 *
 * A call takes no reading that began before it did: what was made in between would be missing. So
 * who comes during one waits for the next, which serves all that have come by then.
 */
#include "controller/attachment_list.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/str.h"
#include "common/thread.h"
#include "controller/attachment_index.h"
#include "dpf/dpu_attachment.h"
#include "volume/context_keys.h"

/* A reading that has ended. */
struct listed {
	struct attachment_table *table;
	uint64_t number;
	unsigned users; /* under the lock */
};

struct attachment_list {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a reading has ended, or a caller gives up */
	/* Under the lock. */
	bool running;        /* a call reads */
	uint64_t begun;      /* the number of the last reading that has begun */
	struct listed *last; /* the newest one that has ended well; NULL: nobody waits for it */
	unsigned waiting;    /* calls */
};

struct attachment_list *attachment_list_new(void)
{
	struct attachment_list *l = xcalloc(1, sizeof(*l));

	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	return l;
}

struct attachment_list *attachment_list_free(struct attachment_list *l)
{
	if (!l)
		return NULL;
	assert(!l->last && !l->waiting);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	free(l);
	return NULL;
}

unsigned attachment_list_callers(struct attachment_list *l)
{
	WITH_LOCK(&l->lock);
	return l->waiting;
}

/* ---- reading ---- */

struct reading {
	const struct controller *c;
	struct attachment_table *into;
};

static int put(void *arg, const struct json *item, struct err *err)
{
	struct reading *r = arg;
	struct attachment_fact f = attachment_fact_of(item, r->c->driver_name);

	(void)err;
	if (attachment_fact_is_whole(&f))
		(void)attachment_table_put(r->into, &f, ATTACHMENT_LISTED);
	return 0;
}

/* NULL: *err says why not. */
static struct attachment_table *read_all(const struct controller *c, struct deadline d,
                                         struct err *err)
{
	struct reading r = { .c = c, .into = attachment_table_new() };

	if (kube_list(c->kube, &dpu_attachment_kind, c->namespace, WITHOUT_LABEL, put, &r, d, err))
		return attachment_table_free(r.into);
	return r.into;
}

/* ---- sharing ---- */

/* As in attachment_index.c: cancel_*() must never be called while the list's lock is held. */
struct list_waiter {
	struct attachment_list *l;
	bool cancelled; /* under the list's lock */
};

static void wake(void *arg)
{
	struct list_waiter *w = arg;

	WITH_LOCK(&w->l->lock);
	w->cancelled = true;
	pthread_cond_broadcast(&w->l->changed);
}

static void let_go_locked(struct attachment_list *l, struct listed *x)
{
	assert_locked(&l->lock);
	if (!x || --x->users)
		return;
	attachment_table_free(x->table);
	free(x);
}

/* What a caller does next that wants a reading of that number or a later one. */
enum next { TAKE_IT, READ, WAIT };

static bool is_there_locked(struct attachment_list *l, uint64_t want)
{
	assert_locked(&l->lock);
	return l->last && l->last->number >= want;
}

/* READ: nobody else reads until read_for_all() has ended. */
static enum next next_step(struct attachment_list *l, uint64_t want)
{
	WITH_LOCK(&l->lock);
	if (is_there_locked(l, want))
		return TAKE_IT;
	if (l->running)
		return WAIT;
	l->running = true;
	l->begun++;
	return READ;
}

/* For all who have come before it began. */
static int read_for_all(struct attachment_list *l, const struct controller *c, struct deadline d,
                        struct err *err)
{
	struct attachment_table *table = read_all(c, d, err);

	WITH_LOCK(&l->lock);
	l->running = false;
	pthread_cond_broadcast(&l->changed);
	if (!table)
		return -1;
	let_go_locked(l, l->last);
	l->last = xmalloc(sizeof(*l->last));
	*l->last = (struct listed) { .table = table, .number = l->begun, .users = 1 };
	return 0;
}

static int out_of_time(const struct controller *c, bool cancelled, struct err *err)
{
	return err_set(err, cancelled ? ERR_CANCELLED : ERR_DEADLINE,
	               "the attachments of namespace %s are being listed, since they cannot be "
	               "watched; retry",
	               c->namespace);
}

/* Until the other call has read. False: the time is over, or the caller has gone. */
static bool wait_for_reader(struct list_waiter *w, uint64_t want, struct deadline d)
{
	struct attachment_list *l = w->l;
	struct timespec ts = deadline_timespec(d);

	thread_rest();
	WITH_LOCK(&l->lock);
	while (l->running && !is_there_locked(l, want)) {
		if (w->cancelled || deadline_passed(d))
			return false;
		pthread_cond_clockwait(&l->changed, &l->lock, CLOCK_MONOTONIC, &ts);
	}
	return true;
}

/* The caller's cancellation wakes one wait at a time: here this one, in a reading that of HTTP. */
static int wait_for(struct attachment_list *l, uint64_t want, const struct controller *c,
                    struct deadline d, struct err *err)
{
	struct list_waiter w = { .l = l };
	bool in_time;

	if (cancel_on_set(d.cancel, wake, &w))
		w.cancelled = true;
	in_time = wait_for_reader(&w, want, d);
	(void)cancel_on_set(d.cancel, NULL, NULL);
	return in_time ? 0 : out_of_time(c, w.cancelled, err);
}

/* Returns the number of the first reading that may be taken. */
static uint64_t arrive(struct attachment_list *l)
{
	WITH_LOCK(&l->lock);
	l->waiting++;
	return l->begun + 1;
}

static struct listed *leave(struct attachment_list *l, bool with_it)
{
	struct listed *ret = NULL;

	WITH_LOCK(&l->lock);
	if (with_it) {
		ret = l->last;
		ret->users++;
	}
	if (--l->waiting == 0)
		let_go_locked(l, TAKE(l->last));
	return ret;
}

static struct listed *take(struct attachment_list *l, const struct controller *c, struct deadline d,
                           struct err *err)
{
	uint64_t want = arrive(l);
	enum next next;
	int rc = 0;

	while (rc == 0 && (next = next_step(l, want)) != TAKE_IT)
		rc = next == READ ? read_for_all(l, c, d, err) : wait_for(l, want, c, d, err);
	return leave(l, rc == 0);
}

static int ask_once(const struct controller *c, struct deadline d,
                    void (*ask)(void *arg, const struct attachment_table *t), void *arg,
                    struct err *err)
{
	struct attachment_table *t = read_all(c, d, err);

	if (!t)
		return -1;
	ask(arg, t);
	attachment_table_free(t);
	return 0;
}

int attachment_list_ask(struct attachment_list *l, const struct controller *c, struct deadline d,
                        void (*ask)(void *arg, const struct attachment_table *t), void *arg,
                        struct err *err)
{
	struct listed *got;

	if (!l)
		return ask_once(c, d, ask, arg, err);
	got = take(l, c, d, err);
	if (!got)
		return -1;
	ask(arg, got->table);
	WITH_LOCK(&l->lock);
	let_go_locked(l, got);
	return 0;
}
