/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request from a thread that waits for it.
 *
 * The waiter lives on the caller's stack. That is safe because the engine ends each call exactly
 * once, and http_do() does not return before: when the caller gives up, it asks the engine to
 * cancel, and still waits for the end, which comes at once.
 */
#include "http/http.h"

#include <pthread.h>

#include "common/cleanup.h"
#include "common/thread.h"

struct http_waiter {
	pthread_mutex_t lock; /* guards done; taken before the engine's own */
	pthread_cond_t ended;
	bool done, cancelled;
	struct http_result *result;
};

static void waiter_done(void *arg, struct http_result *result)
{
	struct http_waiter *w = arg;
	WITH_LOCK(&w->lock);
	*w->result = *result;
	result->body = NULL;
	w->done = true;
	pthread_cond_signal(&w->ended);
}

static void waiter_cancel(void *arg)
{
	struct http_waiter *w = arg;
	WITH_LOCK(&w->lock);
	w->cancelled = true;
	pthread_cond_signal(&w->ended);
}

static void waiter_wait(struct http_waiter *w, struct http *h, struct http_call *call)
{
	WITH_LOCK(&w->lock);
	while (!w->done && !w->cancelled)
		pthread_cond_wait(&w->ended, &w->lock);
	if (!w->done)
		http_cancel(h, call);
	while (!w->done)
		pthread_cond_wait(&w->ended, &w->lock);
}

void http_do(struct http *h, struct http_request *request, struct deadline d,
             struct http_result *ret)
{
	struct http_waiter w = { .lock = PTHREAD_MUTEX_INITIALIZER,
		                 .ended = PTHREAD_COND_INITIALIZER,
		                 .result = ret };
	struct http_call *call;
	request->on_done = waiter_done;
	request->arg = &w;
	if (!request->deadline_at || request->deadline_at > d.at)
		request->deadline_at = d.at;
	call = http_start(h, request);

	if (cancel_on_set(d.cancel, waiter_cancel, &w))
		waiter_cancel(&w);
	thread_rest();
	waiter_wait(&w, h, call);
	(void)cancel_on_set(d.cancel, NULL, NULL);
	pthread_mutex_destroy(&w.lock);
	pthread_cond_destroy(&w.ended);
}
