/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only one list of a kind runs at a time, and all calls that wait for it share the result.
 * Otherwise, whenever the watch does not work, forty waiting calls would make the API server scan
 * all attachments, including the Go plugin's, forty times.
 *
 * A call never uses a list that began before the call, because attachments created in between would
 * be missing. So calls that arrive during a list wait for the next list. Calls wait in a queue. The
 * first call reads for itself and for as many of the following calls as fit into one selector; all
 * of these leave the queue with the answer, and the next call reads. If the list fails, only the
 * call that sent it leaves with the error, because it is unknown whether the other calls would also
 * fail.
 */
#include "controller/attachment_lists.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/wait_queue.h"
#include "controller/attachment_index.h"
#include "controller/attachment_selector.h"
#include "dpf/dpu_attachment.h"

/* A completed list. */
struct listed {
	struct attachment_table *table;
	unsigned users; /* under the queue's lock */
};

/*
 * A call in the queue. It is woken individually, because an event concerns only some of the calls.
 */
struct list_caller {
	struct list_caller *next, *prev;
	const char *name; /* the name of the call's volume or node */
	/* Under the queue's lock. */
	bool turn;          /* the call reads, or has to begin to read */
	bool in_list;       /* the current list includes the call's name */
	struct listed *got; /* the answer, if the call has left the queue with one */
	struct wait_queue woken;
};

/* The queue for one kind of list. If it is not empty, the first call has the turn. */
struct list_queue {
	enum attachment_listed which;
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	struct list_caller *first, *last;
	unsigned n;
};

struct attachment_lists {
	struct list_queue queues[ATTACHMENTS_LISTED_N];
};

struct attachment_lists *attachment_lists_new(void)
{
	struct attachment_lists *l = xcalloc(1, sizeof(*l));

	for (unsigned i = 0; i < ATTACHMENTS_LISTED_N; i++) {
		l->queues[i].which = i;
		pthread_mutex_init(&l->queues[i].lock, NULL);
	}
	return l;
}

struct attachment_lists *attachment_lists_free(struct attachment_lists *l)
{
	if (!l)
		return NULL;
	for (unsigned i = 0; i < ATTACHMENTS_LISTED_N; i++) {
		assert(!l->queues[i].first);
		pthread_mutex_destroy(&l->queues[i].lock);
	}
	free(l);
	return NULL;
}

unsigned attachment_lists_callers(struct attachment_lists *l, enum attachment_listed which)
{
	WITH_LOCK(&l->queues[which].lock);
	return l->queues[which].n;
}

/* ---- reading ---- */

struct reading {
	const struct controller *c;
	struct attachment_table *into;
};

static int put_item(void *arg, const struct json *item, struct err *err)
{
	struct reading *r = arg;
	struct attachment_fact f = attachment_fact_of(item, r->c->driver_name);

	(void)err;
	if (attachment_fact_is_whole(&f))
		(void)attachment_table_put(r->into, &f, ATTACHMENT_LISTED);
	return 0;
}

/* Returns NULL with the reason in *err. */
static struct attachment_table *list_into_table(const struct controller *c, const char *selector,
                                                struct deadline d, struct err *err)
{
	struct reading r = { .c = c, .into = attachment_table_new() };

	if (kube_list(c->kube, &dpu_attachment_kind, c->namespace, selector, put_item, &r, d, err))
		return attachment_table_free(r.into);
	return r.into;
}

/* ---- the queue ---- */

static void enter(struct list_queue *q, struct list_caller *x)
{
	WITH_LOCK(&q->lock);
	x->turn = !q->first;
	x->prev = q->last;
	*(q->last ? &q->last->next : &q->first) = x;
	q->last = x;
	q->n++;
}

static void remove_locked(struct list_queue *q, struct list_caller *x)
{
	assert_locked(&q->lock);
	*(x->prev ? &x->prev->next : &q->first) = x->next;
	*(x->next ? &x->next->prev : &q->last) = x->prev;
	q->n--;
}

/* Passes the turn to the first remaining call. */
static void hand_on_locked(struct list_queue *q)
{
	assert_locked(&q->lock);
	if (!q->first)
		return;
	assert(!q->first->turn);
	q->first->turn = true;
	wait_queue_wake(&q->first->woken);
}

static void let_go_locked(struct list_queue *q, struct listed *x)
{
	assert_locked(&q->lock);
	if (--x->users)
		return;
	attachment_table_free(x->table);
	free(x);
}

/*
 * Selects the calls that the next list serves: the reading call, and calls behind it in the queue.
 */
static void choose_callers(struct list_queue *q, struct attachment_selector *selector)
{
	WITH_LOCK(&q->lock);
	for (struct list_caller *x = q->first; x && attachment_selector_add(selector, x->name);
	     x = x->next)
		x->in_list = true;
}

static void answer_locked(struct list_queue *q, struct attachment_table *table)
{
	struct listed *l = xcalloc(1, sizeof(*l));

	assert_locked(&q->lock);
	l->table = table;
	for (struct list_caller *x = q->first; x && x->in_list; x = x->next) {
		l->users++;
		x->got = l;
		remove_locked(q, x);
		wait_queue_wake(&x->woken);
	}
}

/*
 * Reads the list for all selected calls. Returns with the answer or with *err, after the calling
 * call has left the queue.
 */
static int read_for_all(struct list_queue *q, struct list_caller *me, const struct controller *c,
                        struct deadline d, struct err *err)
{
	struct attachment_selector selector AUTO(attachment_selector_clear) =
		attachment_selector_new(q->which);
	struct attachment_table *table;

	choose_callers(q, &selector);
	table = list_into_table(c, attachment_selector_end(&selector), d, err);
	WITH_LOCK(&q->lock);
	assert(q->first == me);
	if (table) {
		answer_locked(q, table);
	} else {
		remove_locked(q, me);
		for (struct list_caller *x = q->first; x && x->in_list; x = x->next)
			x->in_list = false;
	}
	hand_on_locked(q);
	return table ? 0 : -1;
}

/* ---- waiting ---- */

enum next { HAS_IT, READ, LEAVE };

/*
 * Waits for the call's turn. Returns LEAVE if the call has left the queue without an answer; it was
 * not the first one, so the turn is unchanged.
 */
static enum next wait_for_turn(struct list_queue *q, struct list_caller *me, struct deadline d)
{
	WITH_LOCK(&q->lock);
	while (!me->got && !me->turn && wait_queue_wait(&me->woken, &q->lock, d))
		;
	if (me->got)
		return HAS_IT;
	if (me->turn)
		return READ;
	remove_locked(q, me);
	return LEAVE;
}

static int refuse_listing(struct list_queue *q, const struct controller *c, struct deadline d,
                          struct err *err)
{
	WITH_LOCK(&q->lock);
	return err_set(err, cancel_is_set(d.cancel) ? ERR_CANCELLED : ERR_DEADLINE,
	               "the attachments of namespace %s are being listed%s (calls that wait for "
	               "it: %u); retry",
	               c->namespace,
	               q->which == ATTACHMENTS_ON_NODE
	                       ? ""
	                       : " because they cannot be watched: the driver's log has the "
	                         "reason",
	               q->n);
}

/* Returns NULL with the reason in *err. */
static struct listed *obtain_listed(struct list_queue *q, const char *name,
                                    const struct controller *c, struct deadline d, struct err *err)
{
	struct list_caller me = { .name = name };
	enum next next;
	int rc = 0;

	enter(q, &me);
	next = wait_for_turn(q, &me, d);
	if (next == READ)
		rc = read_for_all(q, &me, c, d, err);
	else if (next == LEAVE)
		rc = refuse_listing(q, c, d, err);
	return rc ? NULL : me.got;
}

static int ask_once(const struct controller *c, enum attachment_listed which, const char *name,
                    struct deadline d, void (*ask)(void *arg, const struct attachment_table *t),
                    void *arg, struct err *err)
{
	struct attachment_selector selector AUTO(attachment_selector_clear) =
		attachment_selector_new(which);
	struct attachment_table *t;

	(void)attachment_selector_add(&selector, name);
	t = list_into_table(c, attachment_selector_end(&selector), d, err);
	if (!t)
		return -1;
	ask(arg, t);
	attachment_table_free(t);
	return 0;
}

int attachment_lists_ask(struct attachment_lists *l, const struct controller *c,
                         enum attachment_listed which, const char *name, struct deadline d,
                         void (*ask)(void *arg, const struct attachment_table *t), void *arg,
                         struct err *err)
{
	struct list_queue *q;
	struct listed *got;

	if (!l)
		return ask_once(c, which, name, d, ask, arg, err);
	q = &l->queues[which];
	got = obtain_listed(q, name, c, d, err);
	if (!got)
		return -1;
	ask(arg, got->table);
	WITH_LOCK(&q->lock);
	let_go_locked(q, got);
	return 0;
}
