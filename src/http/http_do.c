/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request from a thread that waits for it.
 *
 * The waiter lives on the caller's stack. That is safe because the engine ends each call exactly
 * once, and http_do() does not return before: when the caller gives up, it asks the engine to
 * cancel, and still waits for the end, which comes at once.
 */
#include "http/http.h"

#include <semaphore.h>
#include <stdatomic.h>

struct http_waiter {
	sem_t told; /* posted at the end of the call, and by the caller's cancellation */
	atomic_bool done;
	struct http_result *result; /* of the engine until done */
};

/* Nothing of *w is touched behind sem_post(): it may be gone. */
static void waiter_done(void *arg, struct http_result *result)
{
	struct http_waiter *w = arg;
	*w->result = *result;
	result->body = NULL;
	atomic_store(&w->done, true);
	sem_post(&w->told);
}

void http_do(struct http *h, struct http_request *request, struct deadline d,
             struct http_result *ret)
{
	struct http_waiter w = { .result = ret };
	struct http_call *call;
	sem_init(&w.told, 0, 0);
	request->on_done = waiter_done;
	request->arg = &w;
	if (!request->deadline_at || request->deadline_at > d.at)
		request->deadline_at = d.at;
	call = http_start(h, request);
	/* The engine keeps the deadline. */
	sem_wait_deadline(&w.told, (struct deadline) { DEADLINE_NEVER, d.cancel });
	if (!atomic_load(&w.done))
		http_cancel(h, call);
	while (!atomic_load(&w.done))
		sem_wait_until(&w.told, DEADLINE_NEVER);
	sem_destroy(&w.told);
}
