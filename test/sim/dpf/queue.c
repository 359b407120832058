/* SPDX-License-Identifier: Apache-2.0 */
/* Two lists: the queue, first in, first out; the timers, unsorted, because they are few. */
#include "test/sim/dpf/queue.h"

#include <limits.h>

#include "common/deadline.h"
#include "common/mem.h"

static struct dpf_work *work_new(const struct api_resource *res, const char *ns, const char *name)
{
	struct dpf_work *w = xcalloc(1, sizeof(*w));

	w->res = res;
	w->ns = xstrdup(ns);
	w->name = xstrdup(name);
	return w;
}

void work_free(struct dpf_work *w)
{
	free(w->ns);
	free(w->name);
	free(w);
}

/* Appends to the queue, which owns w from now on. */
static void append(struct dpf *d, struct dpf_work *w)
{
	w->next = NULL;
	*d->ready_end = w;
	d->ready_end = &w->next;
}

void queue_add(struct dpf *d, const struct api_resource *res, const char *ns, const char *name)
{
	append(d, work_new(res, ns, name));
}

void queue_init(struct dpf *d)
{
	d->ready_end = &d->ready;
}

static void list_free(struct dpf_work *list)
{
	while (list) {
		struct dpf_work *next = list->next;

		work_free(list);
		list = next;
	}
}

void queue_clear(struct dpf *d)
{
	list_free(d->ready);
	list_free(d->timers);
}

struct dpf_work *queue_take(struct dpf *d)
{
	struct dpf_work *w = d->ready;

	if (!w)
		return NULL;
	d->ready = w->next;
	if (!d->ready)
		d->ready_end = &d->ready;
	return w;
}

void queue_set_timer(struct dpf *d, const struct dpf_work *w, int64_t ms)
{
	int64_t due = monotonic_ns() + ms * 1000000;
	struct dpf_work *t;

	for (t = d->timers; t; t = t->next) {
		if (t->res == w->res && str_eq(t->ns, w->ns) && str_eq(t->name, w->name)) {
			t->due = due < t->due ? due : t->due;
			return;
		}
	}
	t = work_new(w->res, w->ns, w->name);
	t->due = due;
	t->next = d->timers;
	d->timers = t;
}

void queue_take_timers(struct dpf *d)
{
	int64_t now = monotonic_ns();

	for (struct dpf_work **at = &d->timers; *at;) {
		struct dpf_work *w = *at;

		if (w->due > now) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		append(d, w);
	}
}

int queue_ms_to_next_timer(const struct dpf *d)
{
	int64_t now = monotonic_ns(), first = INT64_MAX;

	for (const struct dpf_work *w = d->timers; w; w = w->next)
		first = w->due < first ? w->due : first;
	if (first == INT64_MAX)
		return -1;
	if (first <= now)
		return 0;
	return (first - now) / 1000000 > INT_MAX / 2 ? INT_MAX / 2
	                                             : (int)((first - now) / 1000000) + 1;
}
