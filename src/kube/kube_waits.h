/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who wait for objects of one collection: a table that the watch fills in (kube_watch.c) and
 * the callers empty (kube_wait.c). All of it is under the client's lock, which the callers of these
 * functions hold. Knows neither the client nor the watch.
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

/* One caller that waits for one name. It consumes `state`, `gone` or `err`, in this order. */
struct kube_wait {
	struct hash_link link;               /* by name */
	struct kube_waits *all;              /* its table */
	struct kube_wait *next, **prev_next; /* of all; the pointer that points here */
	char *name;
	struct kube_watch *watch;
	char *uid; /* the object that the caller means, or NULL: any of this name */
	struct wait_queue notified; /* there is something to consume */
	void (*on_rest)(void *arg); /* NULL, or see kube_wait_on_rest(); the caller's thread only */
	void *on_rest_arg;

	char *state; /* JSON text of the newest state that was not given out, or NULL */
	size_t state_n;
	char version[RESOURCE_VERSION_MAX]; /* of the newest state, given out or not; "": unknown */
	bool gone;          /* to be reported: there is no such object; then state is NULL */
	bool gone_reported; /* that was the last result of kube_wait_next() */
	bool failed;        /* *err is to be reported */
	struct err *err;    /* NULL: there never was one; 1 KB that most waits never need */

	/*
	 * kube_wait_next() was called, and has returned no error since: the object may be read.
	 * Before, it need not exist; after an error, the caller says whether it goes on.
	 */
	bool asked;
	/*
	 * Since when the object is to be read, because events may have been missed (monotonic ns),
	 * or 0. wait_must_read() sets it; only the beginning of a read and an event that says all
	 * make it 0.
	 */
	int64_t unread_since;
	/* When it is to be read although nothing is known to be missed; 0: unset. */
	int64_t resync_at;
	/*
	 * The number of the read under way whose result counts, or 0. An event makes it 0: what the
	 * read brings may be older than the event, and all that is newer comes as events too.
	 */
	unsigned long reading;
};

struct kube_waits {
	pthread_mutex_t *lock;   /* the client's */
	struct kube_wait *first; /* the newest */
	/*
	 * The same by name: a walk through all 2,000 of a burst took 350 us of each event, under
	 * the lock.
	 */
	struct hash_table by_name;
	struct hash_key key; /* of the names' hashes */
	size_t n_unread;     /* to be read; mostly none, and then no search is needed */
	/*
	 * Every change from now on comes as an event: the stream is open, or will be opened behind
	 * the last event. False: a list is needed first, then a read of each awaited object.
	 */
	bool live;
};

/* Puts the wait, whose name is set, into the table, and takes it out. */
void waits_add(struct kube_waits *all, struct kube_wait *w);
void waits_remove(struct kube_waits *all, struct kube_wait *w);
void waits_free(struct kube_waits *all); /* none is in it; what is of others stays */
/* Its object is to be read: a read that has begun already does not count as this one. */
void wait_must_read(struct kube_wait *w);

/*
 * An event: a state, or the last one of an object that was deleted. True: a caller waits for the
 * name without knowing the uid, and the deletion has to be confirmed by a read.
 */
bool waits_notify(struct kube_waits *all, const struct kube_event *e);
/*
 * The name that is to be read and has waited longest for it, malloc'ed: it is read now, by the read
 * of this number. NULL when there is none.
 */
char *waits_next_unread(struct kube_waits *all, unsigned long read);
/*
 * The same for a resync: no change of the name is known to be missed, and its wait began, or was
 * resynced, at least `every_ns` before `now`. A silent watch must not hide a change.
 */
char *waits_next_resync(struct kube_waits *all, unsigned long read, int64_t now, int64_t every_ns);
/* `name` is what waits_next_unread() or waits_next_resync() has returned for this read. */
/* The read failed; no wait is notified, because no change is known to be missed. */
void waits_read_dropped(struct kube_waits *all, const char *name, unsigned long read);
/* What the read brought: an object (its text and resourceVersion), NULL for "no such object". */
void waits_notify_read(struct kube_waits *all, const char *name, unsigned long read,
                       const struct kube_event *e);
void waits_notify_read_error(struct kube_waits *all, const char *name, unsigned long read,
                             const struct err *err);
/* The read failed and is to be made again. */
void waits_read_again(struct kube_waits *all, const char *name, unsigned long read);
/*
 * The watch has its resume point: every change comes as an event. Errors not yet reported are
 * dropped.
 */
void waits_begin_live(struct kube_waits *all);
/*
 * The watch has lost its resume point: events may be missed, so every awaited object is to be read.
 */
void waits_end_live(struct kube_waits *all);
/* Watching failed permanently: notifies all waits. */
void waits_notify_error(struct kube_waits *all, const struct err *err);
/* Wakes all who wait: the client stops. */
void waits_wake(struct kube_waits *all);
