/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run handlers. One queue, one mutex, held for a few pointers only. A thread is
 * started when more calls wait than threads are idle, so an idle node keeps none and a busy one
 * never more than the maximum. The queue has no bound of its own: rpc_server_call.c counts the
 * calls that it lets in.
 */
#include "rpc/workers.h"

#include <assert.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"

struct workers {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t work;
	struct queued_call *head, **tail;
	unsigned waiting, idle; /* calls, threads */
	bool stop;
	unsigned n_threads, max_threads;
	pthread_t threads[];
};

struct workers *workers_new(unsigned max_threads)
{
	struct workers *w = xcalloc(1, sizeof(*w) + max_threads * sizeof(w->threads[0]));

	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	w->tail = &w->head;
	w->max_threads = max_threads;
	return w;
}

static struct queued_call *take_locked(struct workers *w)
{
	struct queued_call *call = w->head;

	assert_locked(&w->lock);
	assert(call && w->waiting > 0);
	w->head = call->next;
	if (!w->head)
		w->tail = &w->head;
	w->waiting--;
	return call;
}

static struct queued_call *next_call(struct workers *w)
{
	WITH_LOCK(&w->lock);
	w->idle++;
	while (!w->head && !w->stop)
		pthread_cond_wait(&w->work, &w->lock);
	w->idle--;
	return w->head ? take_locked(w) : NULL;
}

static void *worker(void *arg)
{
	struct workers *w = arg;

	pthread_setname_np(pthread_self(), "rpc-worker");
	for (struct queued_call *call = next_call(w); call; call = next_call(w))
		call->run(call);
	return NULL;
}

static void grow_locked(struct workers *w)
{
	int rc;

	assert_locked(&w->lock);
	assert(w->n_threads <= w->max_threads);
	if (w->waiting <= w->idle || w->n_threads == w->max_threads)
		return;
	rc = pthread_create(&w->threads[w->n_threads], NULL, worker, w);
	if (rc == 0)
		w->n_threads++;
	else
		log_limited(LOG_WARNING, 10, "cannot start a worker thread (errno %d); %u run", rc,
		            w->n_threads);
}

bool workers_submit(struct workers *w, struct queued_call *call)
{
	WITH_LOCK(&w->lock);
	assert(!w->stop);
	w->waiting++;
	grow_locked(w);
	if (w->n_threads == 0) {
		w->waiting--;
		return false;
	}
	call->next = NULL;
	*w->tail = call;
	w->tail = &call->next;
	pthread_cond_signal(&w->work);
	return true;
}

static void stop(struct workers *w)
{
	WITH_LOCK(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->work);
}

struct workers *workers_free(struct workers *w)
{
	if (!w)
		return NULL;
	stop(w);
	for (unsigned i = 0; i < w->n_threads; i++)
		pthread_join(w->threads[i], NULL);
	assert(!w->head && w->waiting == 0);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->work);
	free(w);
	return NULL;
}
