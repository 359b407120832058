/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes Events about Nodes and PersistentVolumes for `kubectl describe`. It has its own thread, so
 * no call waits for an Event. Events only inform people, so an Event that cannot be written is
 * logged and dropped.
 *
 * Rate: one Event for each object and reason in EVENT_AGAIN_MS, even after a restart, and one
 * request in EVENT_EVERY_MS.
 */
#pragma once

#include "common/err.h"
#include "kube/kube.h"

#define EVENT_AGAIN_MS 600000
#define EVENT_EVERY_MS 1000
#define EVENT_QUEUE 32 /* queued Events; further ones are dropped */

struct event_recorder;

struct event_recorder_options {
	struct kube *kube;
	const char *driver; /* the source of the Events */
	int every_ms;       /* pause between two requests; 0: EVENT_EVERY_MS. For tests */
};

/* The string in `o` must outlive the recorder. */
int event_recorder_start(const struct event_recorder_options *o, struct event_recorder **ret,
                         struct err *err) MUST_CHECK;
/*
 * Queues a Warning about a Node (core_node_kind), or about the PersistentVolume
 * (persistent_volume_kind) whose name and volume handle are `name`. Nothing is written if that
 * object does not exist. `reason` is CamelCase and static; up to 1,000 bytes of `message` are
 * copied. Any thread; does not block. If `r` is NULL, nothing is written.
 */
void event_warn(struct event_recorder *r, const struct kube_kind *kind, const char *name,
                const char *reason, const char *message);
/* Ends the thread and its request; call it before kube_free(). NULL is allowed. */
void event_recorder_stop(struct event_recorder *r);
/* Call it after kube_free(), because calls may run until then. NULL is allowed; returns NULL. */
struct event_recorder *event_recorder_free(struct event_recorder *r);
