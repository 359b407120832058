/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the controllers' thread: objects to reconcile now, and objects to reconcile later.
 * Only that thread calls.
 */
#pragma once

#include "test/sim/dpf/state.h"

/* An object to reconcile. */
struct dpf_work {
	const struct api_resource *res;
	char *ns, *name;
	int64_t due; /* of a timer: monotonic_ns() */
	struct dpf_work *next;
	struct dpf_work *link; /* in its bucket of the queue */
};

void queue_init(struct dpf *d);
void queue_clear(struct dpf *d);
/* Does nothing if the object is already queued. */
void queue_add(struct dpf *d, const struct api_resource *res, const char *ns, const char *name);
/* Takes the first of the queue; NULL: it is empty. Free it with work_free(). */
struct dpf_work *queue_take(struct dpf *d);
void work_free(struct dpf_work *w);
/*
 * Queues the object of `w` again in `ms` milliseconds, or earlier if an earlier time is already
 * set.
 */
void queue_set_timer(struct dpf *d, const struct dpf_work *w, int64_t ms);
/* Moves the timers that are due to the queue. */
void queue_take_timers(struct dpf *d);
/* The timeout for poll(); -1: no timer is set. */
int queue_ms_to_next_timer(const struct dpf *d);
