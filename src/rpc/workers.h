/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads. One is started, up to a maximum, when there is work that no idle thread can
 * take; then it is kept.
 */
#pragma once

#include <stdbool.h>

struct workers;

/* The first member of what is submitted, so that nothing has to be allocated. */
struct queued_call {
	struct queued_call *next;
	void (*run)(struct queued_call *call); /* on a worker; may free the call */
};

struct workers *workers_new(unsigned max_threads);
/* Any thread. First in, first out. False: there is no thread and none can be started. */
bool workers_submit(struct workers *w, struct queued_call *call);
/* Runs all that was submitted, joins the threads. NULL is fine; returns NULL. */
struct workers *workers_free(struct workers *w);
