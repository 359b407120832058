/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are on the stacks of the waiting threads. A cancellation posts without taking the lock of
 * the condition, because cancel_set() must not block.
 */
#include "common/wait_queue.h"

#include <semaphore.h>

#include "common/cleanup.h"

struct wait_queue_entry {
	struct wait_queue_entry *next;
	sem_t woken;
};

bool wait_queue_wait(struct wait_queue *q, pthread_mutex_t *lock, struct deadline d)
{
	struct wait_queue_entry me = { .next = q->first }, **p = &q->first;

	assert_locked(lock);
	sem_init(&me.woken, 0, 0);
	q->first = &me;
	mutex_unlock_p(&lock);
	sem_wait_deadline(&me.woken, d);
	mutex_lock_(lock);
	while (*p != &me)
		p = &(*p)->next;
	*p = me.next;
	sem_destroy(&me.woken);
	return !deadline_given_up(d);
}

void wait_queue_wake(struct wait_queue *q)
{
	for (struct wait_queue_entry *e = q->first; e; e = e->next)
		sem_post(&e->woken);
}
