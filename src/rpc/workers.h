/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run one call at a time. A call that arrives while no thread is idle starts a thread,
 * so no call waits for another to end. A thread that has been idle for some time ends.
 */
#pragma once

#include <stdbool.h>

struct workers;

/* A member of the submitted struct, which saves an allocation. */
struct task {
	void (*run)(struct task *task); /* runs on its own thread; may free the task */
};

/* idle_ms: how long a thread waits for its next task before it ends. */
struct workers *workers_new(int idle_ms);
/* Any thread. Runs the task at once. Returns false if no thread is idle and none can be started. */
bool workers_submit(struct workers *w, struct task *task);
/* Waits for all submitted tasks and joins the threads. NULL is allowed; returns NULL. */
struct workers *workers_free(struct workers *w);
