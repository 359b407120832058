/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the two sides of waiting: kube_wait.c, which callers' threads enter, and kube_watch.c,
 * the state machine on the HTTP engine's thread. What both touch is under the client's lock.
 */
#pragma once

#include "kube/kube_priv.h"
#include "kube/kube_waits.h"

enum watch_phase {
	WATCH_IDLE,    /* nothing under way, nobody waits */
	WATCH_LISTING, /* asking for a resourceVersion to start from */
	WATCH_STREAMING,
	WATCH_PAUSED, /* until the timer rings */
};

/* One per collection; stays for the life of the client. */
struct kube_watch {
	struct kube_watch *next;
	struct kube *k;
	struct kube_kind kind; /* strings owned */
	char *ns;

	/* Under the client's lock. */
	struct kube_waits waits;
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
	return w->waits.live;
}

/* kube_watch_read.c, the engine's thread. */
void watch_reads_init(struct kube_watch *w);
/* Reads each object that has to be read; again after a pause where that fails and may pass. */
void watch_reads_start(struct kube_watch *w);
