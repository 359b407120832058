/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that receives signals. It shares struct signals with the main thread, under its lock.
 * A separate thread is needed because the main thread may be blocked.
 */
#include "common/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/log_queue.h"
#include "common/running.h"

#define NAMED 16 /* maximum number of calls named in the log */

void signals_block(struct signals *s)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&s->set);
	sigaddset(&s->set, SIGTERM);
	sigaddset(&s->set, SIGINT);
	sigaddset(&s->set, SIGUSR1);
	sigaddset(&s->set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &s->set, NULL);
}

static void leave(int number)
{
	(void)number;
	_exit(EXIT_FAILURE);
}

static void exit_at_once(int number)
{
	static const char text[] = "second signal: exiting immediately, running calls are cut "
				   "off\n";

	(void)number;
	alarm(1); /* stderr may block; leave() interrupts the write */
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_FAILURE);
}

/*
 * Passes the signal to the main thread. Returns false if the main thread has completed the
 * shutdown; it then uses this signal only to report that.
 */
static bool tell_main(struct signals *s)
{
	WITH_LOCK(&s->lock);
	/* The last log lines may have to wait for stderr, within the same 25 s. */
	s->end_at = deadline_in_ms(SIGNALS_END_MS - LOG_FLUSH_MS).at;
	wait_queue_wake(&s->changed);
	return !s->stopped;
}

/* Returns false if the shutdown was completed in time. */
static bool signals_wait_for_end(struct signals *s)
{
	WITH_LOCK(&s->lock);
	while (!s->stopped &&
	       wait_queue_wait(&s->changed, &s->lock, (struct deadline) { .at = s->end_at }))
		;
	return !s->stopped;
}

static void name_what_runs(struct running *running)
{
	struct running_seen seen[NAMED];
	size_t n = running_list(running, false, seen, NAMED);

	for (size_t i = 0; i < n && i < NAMED; i++) {
		char seconds[32], thread[32];

		snprintf(seconds, sizeof(seconds), "%.1f", seen[i].seconds);
		snprintf(thread, sizeof(thread), "%d", seen[i].thread);
		log_event(LOG_WARNING, "cut at the end of the process", "method", seen[i].method,
		          "volume", *seen[i].subject ? seen[i].subject : NULL, "seconds", seconds,
		          "thread", thread, NULL);
	}
	log_msg(LOG_ERROR,
	        "not stopped %d s after the signal, %zu calls still run (see dmesg of the node "
	        "for the cause): ending with status %d",
	        SIGNALS_END_MS / 1000, n, SIGNALS_EXIT_HUNG);
}

/* Handles SIGUSR1 (log more) and SIGUSR2 (return to --v). Returns true for these signals. */
static bool is_about_the_log(int number)
{
	char verbosity[16];

	if (number != SIGUSR1 && number != SIGUSR2)
		return false;
	snprintf(verbosity, sizeof(verbosity), "%d", number == SIGUSR1 ? log_more() : log_as_set());
	log_event(LOG_INFO, "the verbosity has changed", "v", verbosity, "signal",
	          number == SIGUSR1 ? "SIGUSR1" : "SIGUSR2", NULL);
	return true;
}

static void *take_signals(void *arg)
{
	struct sigaction second = { .sa_handler = exit_at_once }, late = { .sa_handler = leave };
	struct signals *s = arg;
	int number = 0;

	pthread_setname_np(pthread_self(), "signals");
	while (sigwait(&s->set, &number) || is_about_the_log(number))
		;
	if (!tell_main(s))
		return NULL;
	sigaction(SIGALRM, &late, NULL);
	sigaction(SIGTERM, &second, NULL);
	sigaction(SIGINT, &second, NULL);
	pthread_sigmask(SIG_UNBLOCK, &s->set, NULL);
	log_event(LOG_INFO, "stopping", "signal", number == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
	if (!signals_wait_for_end(s))
		return NULL;
	name_what_runs(s->running);
	log_flush();
	_exit(SIGNALS_EXIT_HUNG);
}

int signals_start(struct signals *s, struct running *running, struct err *err)
{
	int rc;

	s->running = running;
	pthread_mutex_init(&s->lock, NULL);
	rc = pthread_create(&s->thread, NULL, take_signals, s);
	return rc ? err_sys_of(err, ERR_CALL_TASK, rc, "start the thread that takes signals") : 0;
}

void signals_wait(struct signals *s)
{
	WITH_LOCK(&s->lock);
	while (!s->end_at)
		IGNORE_RESULT(wait_queue_wait(&s->changed, &s->lock, deadline_never()));
}

void signals_end(struct signals *s)
{
	bool came;

	{
		WITH_LOCK(&s->lock);
		s->stopped = true;
		came = s->end_at;
		wait_queue_wake(&s->changed);
	}
	if (!came)
		pthread_kill(s->thread, SIGTERM);
	pthread_join(s->thread, NULL);
	pthread_mutex_destroy(&s->lock);
}
