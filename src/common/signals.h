/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM and SIGINT end the process in order, and in time: a thread takes them, and ends the
 * process SIGNALS_END_MS after the first with status SIGNALS_EXIT_HUNG, whatever the main thread
 * waits for; the calls that still run are named in the log. A second one ends it at once with
 * status 1. SIGUSR1 and SIGUSR2 change the log's verbosity (log.h). SIGPIPE is ignored.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/wait_queue.h"

struct running;

/* Kubernetes gives the pod 30 s, and then says nothing. */
#define SIGNALS_END_MS 25000
#define SIGNALS_EXIT_HUNG 3

/* What the main thread and the one that takes signals tell each other. */
struct signals {
	sigset_t set;
	pthread_t thread;
	struct running *running; /* borrowed: what to name at the end */
	pthread_mutex_t lock;    /* guards what is below */
	struct wait_queue changed;
	int64_t end_at; /* when the process ends at the latest; 0: no signal has come */
	bool stopped;   /* everything is taken down */
};

/* Before the first thread starts: every thread inherits the mask, only sigwait() takes signals. */
void signals_block(struct signals *s);
/* Starts the thread. `running`, from which it names calls, outlives it. */
int signals_start(struct signals *s, struct running *running, struct err *err) MUST_CHECK;
void signals_wait(struct signals *s); /* until SIGTERM or SIGINT has come */
void signals_end(struct signals *s);  /* after everything was taken down: ends the thread */
