/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A condition variable whose wait also ends with the cancellation of a call. Each waiting thread
 * has a semaphore of its own, so a cancellation wakes only its own thread.
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
 * and takes the lock again. False: the deadline has passed or is cancelled. Either way the caller
 * looks at its condition again.
 */
bool wait_queue_wait(struct wait_queue *q, pthread_mutex_t *lock, struct deadline d) MUST_CHECK;
/* Wakes all waiting threads. The caller holds the lock of the condition. */
void wait_queue_wake(struct wait_queue *q);
