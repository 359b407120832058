/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists: two queues, first in, first out, because DPF's controllers do not wait for each other; the
 * timers, unsorted, because they are few.
 */
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

static struct dpf_work **bucket_of(struct dpf *d, const char *name)
{
	unsigned hash = 5381;

	for (const char *s = name; *s; s++)
		hash = hash * 33 + (unsigned char)*s;
	return &d->queued[hash % QUEUE_BUCKETS];
}

static bool is_about(const struct dpf_work *w, const struct api_resource *res, const char *ns,
                     const char *name)
{
	return w->res == res && str_eq(w->ns, ns) && str_eq(w->name, name);
}

/* Appends w to the queue, which then owns it; frees w if its object is already queued. */
static void append(struct dpf *d, struct dpf_work *w)
{
	struct dpf_work **bucket = bucket_of(d, w->name);
	bool last = w->res == RES(ATTACHMENTS);

	for (const struct dpf_work *x = *bucket; x; x = x->link) {
		if (is_about(x, w->res, w->ns, w->name)) {
			work_free(w);
			return;
		}
	}
	w->link = *bucket;
	*bucket = w;
	w->next = NULL;
	*d->ready_end[last] = w;
	d->ready_end[last] = &w->next;
}

void queue_add(struct dpf *d, const struct api_resource *res, const char *ns, const char *name)
{
	append(d, work_new(res, ns, name));
}

void queue_init(struct dpf *d)
{
	for (size_t i = 0; i < ARRAY_LEN(d->ready); i++)
		d->ready_end[i] = &d->ready[i];
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
	for (size_t i = 0; i < ARRAY_LEN(d->ready); i++)
		list_free(d->ready[i]);
	list_free(d->timers);
}

struct dpf_work *queue_take(struct dpf *d)
{
	size_t i = d->ready[0] ? 0 : 1;
	struct dpf_work *w = d->ready[i], **at;

	if (!w)
		return NULL;
	for (at = bucket_of(d, w->name); *at != w;)
		at = &(*at)->link;
	*at = w->link;
	d->ready[i] = w->next;
	if (!d->ready[i])
		d->ready_end[i] = &d->ready[i];
	return w;
}

void queue_set_timer(struct dpf *d, const struct dpf_work *w, int64_t ms)
{
	int64_t due = monotonic_ns() + ms * 1000000;
	struct dpf_work *t;

	for (t = d->timers; t; t = t->next) {
		if (is_about(t, w->res, w->ns, w->name)) {
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
