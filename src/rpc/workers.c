/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run calls. There is no queue: a task is passed directly to an idle thread, or to a
 * new one. The thread that became idle last gets the next task, so that the surplus threads of a
 * burst get no task and end. The caller limits the number of threads: rpc_server_call.c counts the
 * calls that it admits.
 *
 * A thread that ends joins the thread that ended before it and unmaps that thread's stack, so that
 * only the last stack remains. It also releases the memory that malloc has kept since the burst.
 * The stacks are allocated here, because glibc caches the stacks that it allocates: 2.5 MB after a
 * burst.
 */
#include "rpc/workers.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "common/wait_queue.h"

/* Minimum time between two calls of malloc_trim() while many threads end. */
#define TRIM_NS INT64_C(1000000000)

/* One thread. */
struct worker {
	void *stack; /* the thread's mapping, with a guard page at the low end */
	struct workers *pool;
	struct worker *below; /* next in the stack of idle threads */
	/*
	 * The next task. It is written under the lock before the post, and read after the post
	 * without the lock.
	 */
	struct task *_Atomic task;
	bool taken; /* no longer idle, and `woken` is or will be posted */
	sem_t woken;
	pthread_t thread;
};

struct workers {
	int idle_ms;
	size_t stack_bytes; /* including the guard page */
	size_t guard_bytes;
	pthread_mutex_t lock; /* guards the fields below, and the fields of idle threads */
	struct wait_queue changed;
	struct worker *idle; /* the thread that became idle last */
	unsigned n_threads;
	bool stop;
	void *ended_stack; /* NULL: no thread has ended */
	pthread_t ended;   /* the thread to be joined, which uses ended_stack */
	int64_t trimmed_at;
};

struct workers *workers_new(int idle_ms)
{
	struct workers *w = xcalloc(1, sizeof(*w));

	w->idle_ms = idle_ms;
	w->guard_bytes = (size_t)sysconf(_SC_PAGESIZE);
	w->stack_bytes = THREAD_STACK_BYTES + w->guard_bytes;
	pthread_mutex_init(&w->lock, NULL);
	return w;
}

/* ---- a thread ---- */

static void leave_idle_locked(struct worker *me)
{
	assert_locked(&me->pool->lock);
	for (struct worker **at = &me->pool->idle; *at; at = &(*at)->below)
		if (*at == me) {
			*at = me->below;
			return;
		}
}

static bool become_idle(struct worker *me)
{
	struct workers *w = me->pool;

	WITH_LOCK(&w->lock);
	if (w->stop)
		return false;
	me->task = NULL;
	me->taken = false;
	me->below = w->idle;
	w->idle = me;
	return true;
}

/* Returns false if the thread was taken, and has a task or must end. */
static bool leave_idle(struct worker *me)
{
	WITH_LOCK(&me->pool->lock);
	if (!me->taken)
		leave_idle_locked(me);
	return !me->taken;
}

/*
 * Returns NULL if no task arrived and the thread ends. A thread that takes an idle thread posts
 * after releasing the lock, because a thread that is woken under a lock blocks on that lock at
 * once. So a taken thread always waits for the post, because until then the posting thread uses its
 * entry.
 */
static struct task *next_task(struct worker *me)
{
	int64_t until = deadline_in_ms(me->pool->idle_ms).at;

	if (!become_idle(me))
		return NULL;
	if (!sem_wait_until(&me->woken, until)) {
		if (leave_idle(me))
			return NULL;
		sem_wait_until(&me->woken, DEADLINE_NEVER);
	}
	return me->task;
}

/*
 * Returns true if this thread must release memory. When a thousand threads end together, only some
 * of them do so.
 */
static bool is_to_trim_locked(struct workers *w)
{
	int64_t now = monotonic_ns();

	assert_locked(&w->lock);
	if (w->stop || (w->n_threads > 0 && now - w->trimmed_at < TRIM_NS))
		return false;
	w->trimmed_at = now;
	return true;
}

static void bury(pthread_t ended, void *stack, size_t bytes)
{
	pthread_join(ended, NULL);
	munmap(stack, bytes);
}

/*
 * Ends the thread. The last access to the pool is under its lock, because workers_free() continues
 * after it. The trim follows the end of the previous thread, and so of all earlier ones, because
 * malloc keeps a cache for each thread until that thread has ended.
 */
static void end(struct worker *me)
{
	struct workers *w = me->pool;
	size_t bytes = w->stack_bytes;
	pthread_t before;
	void *stack_before;
	bool trim;

	sem_destroy(&me->woken);
	{
		WITH_LOCK(&w->lock);
		stack_before = w->ended_stack;
		before = w->ended;
		w->ended_stack = me->stack;
		w->ended = me->thread;
		w->n_threads--;
		trim = is_to_trim_locked(w);
		free(me);
		wait_queue_wake(&w->changed);
	}
	if (stack_before)
		bury(before, stack_before, bytes);
	if (trim)
		malloc_trim(0);
}

static void *worker(void *arg)
{
	struct worker *me = arg;

	me->thread = pthread_self();
	pthread_setname_np(me->thread, "rpc-worker");
	thread_begin();
	for (struct task *task = me->task; task; task = next_task(me))
		task->run(task);
	end(me);
	return NULL;
}

/* ---- the pool ---- */

/* Returns NULL if out of memory. */
static void *new_stack(const struct workers *w)
{
	char *stack = mmap(NULL, w->stack_bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

	if (stack == MAP_FAILED)
		return NULL;
	if (mprotect(stack, w->guard_bytes, PROT_NONE) == 0)
		return stack;
	munmap(stack, w->stack_bytes);
	return NULL;
}

/* Returns 0 or an errno. */
static int create(const struct workers *w, struct worker *new)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	new->stack = new_stack(w);
	if (!new->stack)
		return ENOMEM;
	pthread_attr_init(&attr);
	rc = pthread_attr_setstack(&attr, (char *)new->stack + w->guard_bytes,
	                           w->stack_bytes - w->guard_bytes);
	if (rc == 0)
		rc = pthread_create(&thread, &attr, worker, new);
	pthread_attr_destroy(&attr);
	if (rc)
		munmap(new->stack, w->stack_bytes);
	return rc;
}

static bool start_locked(struct workers *w, struct task *task)
{
	struct worker *new = xcalloc(1, sizeof(*new));
	int rc;

	assert_locked(&w->lock);
	new->pool = w;
	new->task = task;
	sem_init(&new->woken, 0, 0);
	rc = create(w, new);
	if (rc == 0) {
		w->n_threads++;
		return true;
	}
	log_limited(LOG_WARNING, 10, "cannot start a thread for a call (errno %d); %u run", rc,
	            w->n_threads);
	sem_destroy(&new->woken);
	free(new);
	return false;
}

/* Returns NULL if no thread is idle; otherwise the caller posts `woken`. */
static struct worker *take_idle_locked(struct workers *w, struct task *task)
{
	struct worker *idle = w->idle;

	assert_locked(&w->lock);
	if (!idle)
		return NULL;
	w->idle = idle->below;
	idle->task = task;
	idle->taken = true;
	return idle;
}

bool workers_submit(struct workers *w, struct task *task)
{
	struct worker *idle;

	{
		WITH_LOCK(&w->lock);
		assert(!w->stop);
		idle = take_idle_locked(w, task);
		if (!idle)
			return start_locked(w, task);
	}
	sem_post(&idle->woken);
	return true;
}

static void stop(struct workers *w)
{
	WITH_LOCK(&w->lock);
	w->stop = true;
	for (struct worker *idle = take_idle_locked(w, NULL); idle;
	     idle = take_idle_locked(w, NULL))
		sem_post(&idle->woken);
	while (w->n_threads)
		IGNORE_RESULT(wait_queue_wait(&w->changed, &w->lock, deadline_never()));
}

struct workers *workers_free(struct workers *w)
{
	if (!w)
		return NULL;
	stop(w);
	if (w->ended_stack)
		bury(w->ended, w->ended_stack, w->stack_bytes);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}
