/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `host watch` share; only they include it. */
#pragma once

#include <pthread.h>

#include "common/running.h"
#include "common/wait_queue.h"
#include "host/tracked.h"
#include "host/host_node.h"
#include "host/watch_config.h"
#include "kube/kube_follow.h"

struct watch {
	const struct host_args *a;
	struct watch_config config;
	struct kube *kube;
	struct running *running;    /* the steps that run, for the end of the process */
	struct host_node scan_node; /* of all scans: it knows which probes hang */
	struct cancel stopping;     /* cancels the requests of the scan thread */

	pthread_mutex_t lock;
	struct wait_queue changed;
	/* Under the lock. */
	struct tracked_table table;
	struct kube_follow *follow; /* NULL: not yet */
	unsigned steps;             /* that run */
	bool notified;              /* an event since the last pass of the loop */
	bool complete;              /* a list of all attachments has ended once */
	bool stop;
	char refused[TRACKED_WHY_MAX]; /* why the API server refuses the watch; "" */
};

/* ---- watch_event.c: events of the API server, into the table ---- */

/* A kube_news_fn; `arg` is the struct watch. The HTTP engine's thread. */
void watch_event(void *arg, enum kube_follow_event news, const char *text, size_t n);
/* The attachment of this uid is in state `f`; NULL: it is gone. Wakes the loop. Any thread. */
void watch_apply(struct watch *w, const char *uid, const struct attachment_file *f);

/* ---- the scan thread, without the lock ---- */

/*
 * watch_scan.c: scans the attached volumes for their health, the manually detached ones for `host
 * resume`. A volume that has to be attached again becomes due.
 */
void watch_scan(struct watch *w);
/*
 * watch_poll.c: polls the known attachments while no watch stream is open, so that a deletion is
 * not missed. No effect while one is open; ends with the first request that fails. New attachments
 * are reported by the stream.
 */
void watch_poll(struct watch *w);

/* ---- watch_notify.c: ready, status and watchdog, to systemd. The loop's thread ---- */

/* Ready when each attachment of the start was tried once, and after this time in any case. */
#define WATCH_READY_MS 60000

struct watch_notify {
	bool begun, ready;
	int64_t begun_at, watchdog_at; /* monotonic ns */
	int64_t watchdog_ms;           /* 0: not asked for */
	char *status;                  /* the last one sent; NULL */
};

/* Sends what has changed; to be called often enough for the watchdog. */
void watch_notify(struct watch *w, struct watch_notify *t);
/* Sends STOPPING. */
void watch_notify_end(struct watch_notify *t);

/* ---- watch_step.c: one step of one attachment, by host attach and host detach ---- */

/* The texts belong to the entry, which stays as long as its step runs. */
struct watch_order {
	enum tracked_step step;
	const char *name, *uid, *volume;
	bool missing, gone;
	struct cancel *cancel;
};

struct watch_outcome {
	enum tracked_state state;
	bool found; /* of a missing attachment: the API server has it */
	bool gone;  /* the API server has no object of this uid */
	char why[TRACKED_WHY_MAX];
};

/* Any thread, without the lock. */
void watch_step(struct watch *w, const struct watch_order *o, struct watch_outcome *ret);
