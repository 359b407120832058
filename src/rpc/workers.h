/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads, started when there is work that no idle one can take, up to a maximum, and
 * kept.
 */
#pragma once

#include <stdbool.h>

struct workers;

/* Part of what the caller wants done; nothing is allocated to submit one. */
struct job {
	struct job *next;
	void (*run)(struct job *job); /* on a worker; the job may free itself */
};

struct workers *workers_new(unsigned max_threads);
/* Any thread. First in, first out. False: no thread is there and none can be started. */
bool workers_submit(struct workers *w, struct job *job);
/* Runs what was submitted before, joins the threads. NULL is fine; returns NULL. */
struct workers *workers_free(struct workers *w);
