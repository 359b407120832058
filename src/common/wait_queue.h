/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A condition variable whose wait also ends when a call is cancelled. Each waiting thread has its
 * own semaphore, so a cancellation wakes only that thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "common/deadline.h"
#include "common/err.h"

struct wait_queue {
	struct wait_queue_entry *first; /* guarded by the lock of the condition; NULL: empty */
};

/*
 * Releases `lock`, which the caller holds, waits for a wake-up, the deadline or its cancellation,
 * and locks `lock` again. Returns false if the deadline has passed or is cancelled. In both cases
 * the caller checks its condition again.
 */
bool wait_queue_wait(struct wait_queue *q, pthread_mutex_t *lock, struct deadline d) MUST_CHECK;
/* Wakes all waiting threads. The caller holds the lock of the condition. */
void wait_queue_wake(struct wait_queue *q);
