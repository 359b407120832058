/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run calls, one each: a call that comes while no thread is idle starts one, so no
 * call ever waits for another to end. A thread that has had nothing to do for a while ends.
 */
#pragma once

#include <stdbool.h>

struct workers;

/* A member of what is submitted, so that nothing has to be allocated. */
struct task {
	void (*run)(struct task *task); /* on a thread of its own; may free the task */
};

/* idle_ms: how long a thread waits for its next task. */
struct workers *workers_new(int idle_ms);
/* Any thread. The task runs at once. False: no thread is idle and none can be started. */
bool workers_submit(struct workers *w, struct task *task);
/* Waits for all that was submitted, joins the threads. NULL is fine; returns NULL. */
struct workers *workers_free(struct workers *w);
