/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded list of lines, and the thread that writes them. A thread is needed because no other
 * method works for every kind of stderr: O_NONBLOCK would also change the descriptor of processes
 * that share stderr, and a pipe with free space for one page still blocks a longer line.
 *
 * After a line was dropped, all further lines are dropped until half of the queue is written. So
 * there is at most one notice for each 128 KiB of lines, even if the reader is slow.
 */
#include "common/log_queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/thread.h"

struct line {
	struct line *next;
	/* number of lines that were dropped between the previous line and this line */
	uint64_t lost;
	size_t n;
	char text[];
};

static struct {
	pthread_mutex_t lock; /* guards the fields below, except `rests` */
	struct line *first, **tail;
	size_t bytes;
	uint64_t lost; /* number of lines dropped after the last line of the list */
	bool full;     /* set until half of the queue is written */
	/* everything is written; log_queue_flush() reads this without the lock */
	atomic_bool rests;
	bool started;
	sem_t wake; /* posted when `rests` ends */
	char *(*notice)(uint64_t lines);
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .tail = &queue.first, .rests = true };

/* ---- stderr ---- */

static void sleep_ms(long ms)
{
	const struct timespec t = { .tv_nsec = ms * NS_PER_MS };

	nanosleep(&t, NULL);
}

/*
 * Waits until stderr accepts data, because a process that shares stderr may have made it
 * non-blocking.
 */
static void wait_for_room(void)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	poll(&p, 1, -1);
	sleep_ms(1); /* poll() reports some full files as writable */
}

/*
 * Returns false if the line, or its end, is lost because stderr is closed, has no reader, or its
 * disk is full.
 */
static bool write_line(const char *text, size_t n)
{
	while (n) {
		ssize_t done = write(STDERR_FILENO, text, n);

		if (done > 0) {
			text += done;
			n -= (size_t)done;
		} else if (done < 0 && errno == EAGAIN) {
			wait_for_room();
		} else if (done == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* ---- the thread ---- */

static size_t size_of(const struct line *l)
{
	return sizeof(*l) + l->n;
}

/*
 * Removes and returns the oldest line, or NULL. Adds to *lost the number of lines dropped before
 * that line.
 */
static struct line *log_queue_take(uint64_t *lost)
{
	struct line *l;

	WITH_LOCK(&queue.lock);
	l = queue.first;
	if (!l) {
		*lost += queue.lost;
		queue.lost = 0;
		return NULL;
	}
	*lost += l->lost;
	queue.first = l->next;
	if (!queue.first)
		queue.tail = &queue.first;
	queue.bytes -= size_of(l);
	return l;
}

static bool say_lost(uint64_t lost)
{
	char *text AUTO(free) = queue.notice(lost);

	return write_line(text, strlen(text));
}

/* Returns false if a line is queued. */
static bool begin_rest(void)
{
	WITH_LOCK(&queue.lock);
	queue.rests = !queue.first;
	return queue.rests;
}

static void *log_queue_run(void *arg)
{
	uint64_t lost = 0;

	pthread_setname_np(pthread_self(), "log");
	for (;;) {
		struct line *l = log_queue_take(&lost);

		if (lost && say_lost(lost))
			lost = 0;
		if (l && !write_line(l->text, l->n)) {
			lost++;
			metric_add(METRIC_LOG_DROPPED, 1, NULL);
		}
		if (!l && begin_rest())
			while (sem_wait(&queue.wake))
				;
		free(l);
	}
	return arg;
}

/*
 * Handles abort() of any library, because its last lines may still be queued. Then the default
 * action follows.
 */
static void on_abort(int number)
{
	(void)number;
	log_queue_flush();
}

int log_queue_start(char *(*notice)(uint64_t lines), struct err *err)
{
	struct sigaction aborts = { .sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND };
	sigset_t all, before;
	int rc;

	queue.notice = notice;
	sem_init(&queue.wake, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = thread_start(log_queue_run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return err_sys_of(err, ERR_CALL_TASK, rc, "start the thread that writes the log");
	queue.started = true;
	sigaction(SIGABRT, &aborts, NULL);
	return 0;
}

/* ---- the callers ---- */

/* Returns false if the queue has no free space. */
static bool append(struct line *l)
{
	bool wake;

	{
		WITH_LOCK(&queue.lock);
		queue.full = queue.bytes + size_of(l) > LOG_QUEUE_BYTES / (queue.full ? 2 : 1);
		if (queue.full) {
			queue.lost++;
			return false;
		}
		l->lost = queue.lost;
		queue.lost = 0;
		*queue.tail = l;
		queue.tail = &l->next;
		queue.bytes += size_of(l);
		wake = queue.rests;
		queue.rests = false;
	}
	if (wake)
		sem_post(&queue.wake);
	return true;
}

void log_queue_write(const char *line, size_t n)
{
	struct line *l;

	if (!queue.started) {
		IGNORE_RESULT(write_line(line, n));
		return;
	}
	l = xmalloc(sizeof(*l) + n);
	*l = (struct line) { .n = n };
	memcpy(l->text, line, n);
	if (!append(l)) {
		free(l);
		metric_add(METRIC_LOG_DROPPED, 1, NULL);
	}
}

void log_queue_flush(void)
{
	int64_t end = monotonic_ns() + LOG_FLUSH_MS * NS_PER_MS;

	while (!queue.rests && monotonic_ns() < end)
		sleep_ms(1);
}
