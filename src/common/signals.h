/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM and SIGINT start an orderly shutdown with a time limit. A thread receives them. If the
 * process has not ended SIGNALS_END_MS after the first signal, this thread ends it with status
 * SIGNALS_EXIT_HUNG; the log names the calls that still run. A second signal ends the process at
 * once with status 1. SIGUSR1 and SIGUSR2 change the log's verbosity (log.h). SIGPIPE is ignored.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/wait_queue.h"

struct running;

/* Kubernetes sends SIGKILL, which leaves no log line, 30 s after SIGTERM. */
#define SIGNALS_END_MS 25000
#define SIGNALS_EXIT_HUNG 3

/* Shared by the main thread and the thread that receives signals. */
struct signals {
	sigset_t set;
	pthread_t thread;
	struct running *running; /* borrowed; the calls that are named in the log */
	pthread_mutex_t lock;    /* guards the fields below */
	struct wait_queue changed;
	int64_t end_at; /* deadline of the shutdown; monotonic ns; 0: no signal has arrived */
	bool stopped;   /* the shutdown is complete */
};

/*
 * Blocks the signals. Call it before the first thread starts: every thread inherits the mask, and
 * only sigwait() takes signals.
 */
void signals_block(struct signals *s);
/* Starts the thread. `running`, which has the calls to be named in the log, must outlive it. */
int signals_start(struct signals *s, struct running *running, struct err *err) MUST_CHECK;
void signals_wait(struct signals *s); /* until SIGTERM or SIGINT arrives */
void signals_end(struct signals *s);  /* after shutdown: ends the thread */
