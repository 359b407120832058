/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the two sides of waiting: kube_wait.c, which callers' threads enter, and kube_watch.c,
 * the state machine on the HTTP engine's thread. What both touch is under the client's lock;
 * kube_waits.c carries what the second has learned to the first.
 */
#pragma once

#include "kube/kube_event.h"
#include "kube/kube_priv.h"

#define RESOURCE_VERSION_MAX 128

enum watch_phase {
	WATCH_IDLE,    /* nothing under way, nobody waits */
	WATCH_LISTING, /* asking for a resourceVersion to start from */
	WATCH_STREAMING,
	WATCH_PAUSED, /* until the timer rings */
};

struct kube_wait {
	struct kube_wait *next;
	struct kube_watch *watch;
	char *name;

	/* Under the client's lock. */
	pthread_cond_t told;
	char *uid;   /* expected, or NULL */
	char *state; /* the newest that was not given out, or NULL: its text, parsed by who takes it
	              */
	size_t state_n;
	bool gone;                          /* to be told that there is no such object */
	bool gone_told;                     /* ... which was the last thing told */
	char version[RESOURCE_VERSION_MAX]; /* of the newest state, given out or not */
	bool asked; /* kube_wait_next() was called: what is read now is not older than its question
	             */
	bool must_read; /* events may have been missed: its object is to be read */
	/*
	 * The read under way whose result counts, or 0. An event makes it 0: what the read brings
	 * may be older than the event, and all that is newer comes as events too.
	 */
	unsigned long reading;
	bool failed; /* err is to be told */
	bool cancelled;
	struct err err;
};

/* One per collection; stays for the life of the client. */
struct kube_watch {
	struct kube_watch *next;
	struct kube *k;
	struct kube_kind kind; /* strings owned */
	char *ns;

	/* Under the client's lock. */
	struct kube_wait *waits;
	bool live;      /* each change from now on comes as an event, if need be after a resume */
	bool kicked;    /* watch_run() is on its way */
	char down[256]; /* why there is no stream at the moment; "" when there is */

	/* The engine's thread only. */
	enum watch_phase phase;
	bool hopeless; /* paused by an error that does not pass by itself */
	bool unheard;  /* paused because nobody answered */
	bool refused;  /* the credentials were: read them again before the next try */
	bool doubted;  /* 403 behind a failure: the server may just have started, without its roles
	                */
	bool relisted; /* the last place was lost too, without an event between */
	bool lost;     /* the stream's place is lost: start again with a list */
	bool lost_badly; /* ... and not right now */
	unsigned failures, read_failures;
	unsigned long reads;                /* numbers them, from 1 */
	int64_t tried_at, opened_at;        /* opened_at 0: the stream has not been answered */
	char version[RESOURCE_VERSION_MAX]; /* of the last event */
	struct str line;
	struct http_timer pause, read_pause;
};

/* kube_watch.c, lock held: has the engine's thread look at what is to be done. */
void watch_kick(struct kube_watch *w);
/* kube_watch.c, lock held: the one of this collection, made when it is asked for first. */
struct kube_watch *watch_for(struct kube *k, const struct kube_kind *kind, const char *ns);
static inline bool watch_is_live(struct kube_watch *w)
{
	WITH_LOCK(&w->k->lock);
	return w->live;
}

/* kube_watch_read.c, the engine's thread. */
void watch_reads_init(struct kube_watch *w);
/* Reads each object that has to be read; again after a pause where that fails and may pass. */
void watch_reads_start(struct kube_watch *w);

/* kube_waits.c, lock held: what the watch has learned about a name. */
/*
 * An event: a state, or the last one of an object that is no more. True: it has to be confirmed by
 * a read.
 */
bool waits_tell(struct kube_watch *w, const struct kube_event *e);
/* A name that is to be read now, malloc'ed, by the read of this number; NULL when there is none. */
char *waits_take_unread(struct kube_watch *w, unsigned long read);
/* What the read brought: an object (its text and resourceVersion), NULL for "no such object". */
void waits_tell_read(struct kube_watch *w, unsigned long read, const struct kube_event *e);
void waits_tell_read_error(struct kube_watch *w, unsigned long read, const struct err *err);
void waits_read_again(struct kube_watch *w, unsigned long read);
/* All waits: the watch failed, works again, may have missed events. */
void waits_tell_error(struct kube_watch *w, const struct err *err);
void waits_forget_error(struct kube_watch *w);
void waits_must_read(struct kube_watch *w);
