/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a watch that callers' threads see: whether it has a stream, the reason if not, and
 * whether its events are complete. kube_watch.c (the state machine) and kube_watch_events.c set it.
 */
#include "kube/kube_watch.h"

#include <stdio.h>

#include "common/metric.h"

void watch_kick(struct kube_watch *w)
{
	assert_locked(&w->k->lock);
	if (w->run_posted)
		return;
	w->run_posted = true;
	http_post(w->k->http, w->run, w);
}

void watch_set_down(struct kube_watch *w, const char *why)
{
	WITH_LOCK(&w->k->lock);
	snprintf(w->down, sizeof(w->down), "%s", why);
}

void watch_set_open(struct kube_watch *w)
{
	metric_set(METRIC_WATCH_OPEN, 1, LABELS(w->kind.plural));
	kube_count_response();
	WITH_LOCK(&w->k->lock);
	w->down[0] = 0;
	w->closed_at = 0;
}

void watch_set_closed(struct kube_watch *w)
{
	metric_set(METRIC_WATCH_OPEN, 0, LABELS(w->kind.plural));
	WITH_LOCK(&w->k->lock);
	if (!w->closed_at)
		w->closed_at = monotonic_ns();
}

void watch_begin_live(struct kube_watch *w)
{
	w->reread_credentials = false;
	w->asked_again = false;
	if (w->trouble == TROUBLE_PERMANENT)
		w->trouble = TROUBLE_BUSY;
	w->unverified = false;
	WITH_LOCK(&w->k->lock);
	w->lists++;
	waits_begin_live(&w->waits);
}

void watch_end_live(struct kube_watch *w)
{
	WITH_LOCK(&w->k->lock);
	waits_end_live(&w->waits);
}
