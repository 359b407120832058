/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that only the files of `host watch` include. */
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
	struct running *running;    /* steps in progress, to be awaited at the end of the process */
	struct host_node scan_node; /* shared by all scans, because it knows which probes hang */
	struct cancel stopping;     /* cancels the requests of the scan thread */

	pthread_mutex_t lock;
	struct wait_queue changed;
	/* Protected by the lock. */
	struct tracked_table table;
	struct kube_follow *follow; /* NULL: not started */
	unsigned steps;             /* number of running steps */
	bool notified;              /* an event has arrived since the last pass of the loop */
	bool complete;              /* the first list of all attachments is complete */
	bool stop;
	char refused[TRACKED_WHY_MAX]; /* why the API server rejects the watch; "" */
};

/* ---- watch_event.c: records events of the API server in the table ---- */

/*
 * A kube_news_fn that records an event in the table; `arg` is the struct watch. Called on the HTTP
 * engine's thread.
 */
void watch_event(void *arg, enum kube_follow_event news, const char *text, size_t n);
/*
 * Records that the attachment with this UID is in state `f`, or, if f is NULL, was deleted. Wakes
 * the loop. Any thread.
 */
void watch_apply(struct watch *w, const char *uid, const struct attachment_file *f);

/* ---- the scan thread, without the lock ---- */

/*
 * watch_scan.c: checks the health of attached volumes, and whether `host resume` was run for
 * manually detached ones. A volume that must be attached again becomes due.
 */
void watch_scan(struct watch *w);
/*
 * watch_poll.c: polls the known attachments while no watch stream is open, so that a deletion is
 * not missed. Does nothing while a stream is open; stops at the first request that fails. New
 * attachments are reported by the stream.
 */
void watch_poll(struct watch *w);

/* ---- watch_notify.c: sends READY, status and watchdog to systemd; loop's thread ---- */

/*
 * READY is sent once each attachment that existed at startup was tried, but no later than after
 * this time, in ms.
 */
#define WATCH_READY_MS 60000

struct watch_notify {
	bool begun, ready;
	int64_t begun_at, watchdog_at; /* monotonic ns */
	int64_t watchdog_ms;           /* 0: not requested */
	char *status;                  /* the last status sent; NULL: none */
};

/* Sends changes to systemd; must be called often enough for the watchdog. */
void watch_notify(struct watch *w, struct watch_notify *t);
/* Sends STOPPING. */
void watch_notify_end(struct watch_notify *t);

/* ---- watch_step.c: runs a step of an attachment by host attach or detach ---- */

/* The strings belong to the entry, which is not freed while its step runs. */
struct watch_order {
	enum tracked_step step;
	const char *name, *uid, *volume;
	bool missing, gone;
	struct cancel *cancel;
};

struct watch_outcome {
	enum tracked_state state;
	bool found; /* a missing attachment was found: the API server has it */
	bool gone;  /* the API server has no object with this UID */
	char why[TRACKED_WHY_MAX];
};

/* Runs the step. Any thread, without the lock. */
void watch_step(struct watch *w, const struct watch_order *o, struct watch_outcome *ret);
