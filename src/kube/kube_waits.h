/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of waits for objects of one collection. The watch (kube_watch.c) adds results, and the
 * callers (kube_wait.c) consume them. The client's lock guards the whole table; callers of these
 * functions hold it. The table depends neither on the client nor on the watch.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash_table.h"
#include "common/keyed_hash.h"
#include "common/wait_queue.h"
#include "kube/kube_event.h"

#define RESOURCE_VERSION_MAX 128

struct kube_watch;
struct kube_waits;

/* A caller's wait for one name. The caller consumes `state`, `gone` and `err`, in this order. */
struct kube_wait {
	struct hash_link link;  /* by name */
	struct kube_waits *all; /* its table */
	/* in the list of all waits; the pointer that points to this wait */
	struct kube_wait *next, **prev_next;
	char *name;
	struct kube_watch *watch;
	char *uid; /* uid of the object that the caller waits for; NULL: any object of this name */
	struct wait_queue notified; /* woken when a result can be consumed */
	void (*on_rest)(void *arg); /* kube_wait_on_rest(), or NULL; the caller's thread only */
	void *on_rest_arg;

	char *state; /* JSON text of the newest state that was not yet returned, or NULL */
	size_t state_n;
	char version[RESOURCE_VERSION_MAX]; /* of the newest state, returned or not; "": unknown */
	bool gone;          /* to be reported: the object does not exist; `state` is NULL */
	bool gone_reported; /* the last result of kube_wait_next() was KUBE_ABSENT */
	bool failed;        /* *err is to be reported */
	struct err *err;    /* NULL: no error yet; 1 KB that most waits never need */

	/*
	 * kube_wait_next() was called, and has returned no error since, so the object may be read.
	 * Before the first call, the object need not exist; after an error, the caller decides
	 * whether the wait continues.
	 */
	bool asked;
	/*
	 * Since when the object must be read, because events may have been missed (monotonic ns);
	 * 0: no read is due. wait_must_read() sets it; only the start of a read and an event with
	 * the full state reset it.
	 */
	int64_t unread_since;
	/*
	 * When the object will be re-read although no missed event is known; monotonic ns; 0:
	 * unset.
	 */
	int64_t resync_at;
	/*
	 * The number of the current read whose result is accepted, or 0. An event resets it,
	 * because the read's result may be older than the event, and all newer states also arrive
	 * as events.
	 */
	unsigned long reading;
};

struct kube_waits {
	pthread_mutex_t *lock;   /* the client's */
	struct kube_wait *first; /* the newest */
	/*
	 * The same waits by name: a search through all 2,000 waits of a burst took 350 us per
	 * event, under the lock.
	 */
	struct hash_table by_name;
	struct hash_key key; /* of the names' hashes */
	size_t n_unread;     /* waits whose object must be read; mostly 0 */
	/*
	 * True: every later change arrives as an event, because the stream is open, or will be
	 * resumed after the last event. False: a list is needed first, then a read of each awaited
	 * object.
	 */
	bool live;
};

/* Adds the wait, whose name is set, to the table; removes it from the table. */
void waits_add(struct kube_waits *all, struct kube_wait *w);
void waits_remove(struct kube_waits *all, struct kube_wait *w);
/* Frees the table, which has no waits; does not free `all` itself. */
void waits_free(struct kube_waits *all);
/* Requests a read of the wait's object. The result of a read that has already begun is ignored. */
void wait_must_read(struct kube_wait *w);

/*
 * Passes an event to the waits: a state, or the last state of a deleted object. Returns true if a
 * read must confirm the deletion, because a caller waits for the name without knowing the uid.
 */
bool waits_notify(struct kube_waits *all, const struct kube_event *e);
/*
 * Returns the name that has waited longest for a read, malloc'ed, and marks it as being read by the
 * read of this number. Returns NULL if no name waits for a read.
 */
char *waits_next_unread(struct kube_waits *all, unsigned long read);
/*
 * Like waits_next_unread(), but for a resync, so that a silent watch hides no change: returns a
 * name of which no missed change is known, and whose wait began or was last resynced at least
 * `every_ns` before `now`.
 */
char *waits_next_resync(struct kube_waits *all, unsigned long read, int64_t now, int64_t every_ns);
/*
 * For the functions below, `name` was returned by waits_next_unread() or waits_next_resync() for
 * this read.
 */
/* Ends a failed read. No wait is notified, because no change is known to be missed. */
void waits_read_dropped(struct kube_waits *all, const char *name, unsigned long read);
/*
 * Passes the result of the read to the waits: an object (its text and resourceVersion), or NULL for
 * "no such object".
 */
void waits_notify_read(struct kube_waits *all, const char *name, unsigned long read,
                       const struct kube_event *e);
void waits_notify_read_error(struct kube_waits *all, const char *name, unsigned long read,
                             const struct err *err);
/* Ends a failed read that must be repeated. */
void waits_read_again(struct kube_waits *all, const char *name, unsigned long read);
/*
 * Call it when the watch has its resume point: every later change arrives as an event. Errors that
 * were not yet reported are dropped.
 */
void waits_begin_live(struct kube_waits *all);
/*
 * Call it when the watch has lost its resume point: events may be missed, so every awaited object
 * must be read.
 */
void waits_end_live(struct kube_waits *all);
/* Watching failed permanently: notifies all waits. */
void waits_notify_error(struct kube_waits *all, const struct err *err);
/* Wakes all waits because the client stops. */
void waits_wake(struct kube_waits *all);
