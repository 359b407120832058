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

/* Reads for all who have come so far. The lock is given back meanwhile. */
static int read_locked(struct attachment_list *l, const struct controller *c, struct deadline d,
                       struct err *err)
{
	struct attachment_table *table;
	uint64_t number = ++l->begun;

	assert_locked(&l->lock);
	l->running = true;
	pthread_mutex_unlock(&l->lock);
	table = read_all(c, d, err);
	pthread_mutex_lock(&l->lock);
	l->running = false;
	pthread_cond_broadcast(&l->changed);
	if (!table)
		return -1;
	let_go_locked(l, l->last);
	l->last = xmalloc(sizeof(*l->last));
	*l->last = (struct listed) { .table = table, .number = number, .users = 1 };
	return 0;
}

static int out_of_time(const struct controller *c, bool cancelled, struct err *err)
{
	return err_set(err, cancelled ? ERR_CANCELLED : ERR_DEADLINE,
	               "the attachments of namespace %s are being listed, since they cannot be "
	               "watched; retry",
	               c->namespace);
}

/* Until there is a reading with that number or a later one. */
static int await_locked(struct list_waiter *w, uint64_t want, const struct controller *c,
                        struct deadline d, struct err *err)
{
	struct attachment_list *l = w->l;
	struct timespec ts = deadline_timespec(d);

	assert_locked(&l->lock);
	while (!l->last || l->last->number < want) {
		if (w->cancelled || deadline_passed(d))
			return out_of_time(c, w->cancelled, err);
		if (l->running)
			pthread_cond_clockwait(&l->changed, &l->lock, CLOCK_MONOTONIC, &ts);
		else if (read_locked(l, c, d, err))
			return -1;
	}
	return 0;
}

static struct listed *take(struct list_waiter *w, const struct controller *c, struct deadline d,
                           struct err *err)
{
	struct attachment_list *l = w->l;
	struct listed *ret = NULL;

	thread_rest();
	WITH_LOCK(&l->lock);
	l->waiting++;
	if (await_locked(w, l->begun + 1, c, d, err) == 0) {
		ret = l->last;
		ret->users++;
	}
	if (--l->waiting == 0)
		let_go_locked(l, TAKE(l->last));
	return ret;
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
	struct list_waiter w = { .l = l };
	struct listed *got;

	if (!l)
		return ask_once(c, d, ask, arg, err);
	if (cancel_on_set(d.cancel, wake, &w))
		w.cancelled = true;
	got = take(&w, c, d, err);
	(void)cancel_on_set(d.cancel, NULL, NULL);
	if (!got)
		return -1;
	ask(arg, got->table);
	WITH_LOCK(&l->lock);
	let_go_locked(l, got);
	return 0;
}
