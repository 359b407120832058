/* SPDX-License-Identifier: Apache-2.0 */
/* Events of Kubernetes, the only objects in which DPF reports the failures of a vendor. */
#pragma once

#include "common/json.h"
#include "common/str.h"
#include "kube/kube.h"

/* The namespace in which the API server accepts Events about cluster-scoped objects. */
#define CORE_EVENT_NAMESPACE "default"

extern const struct kube_kind core_event_kind;

/* Decoded leniently: strings point into the object, and are "" if absent or of another type. */
struct core_event {
	const char *about;       /* uid of the involved object */
	const char *kind, *name; /* of the involved object */
	const char *type, *reason, *message;
	const char *at; /* when it was last reported, as RFC 3339 */
};
struct core_event core_event_decode(const struct json *object);
/* A Warning about a cluster-scoped object of the core group. */
struct core_event_draft {
	const char *name; /* name of the Event */
	const struct kube_kind *about;
	const char *about_name, *about_uid;
	const char *reason, *message, *source;
	int64_t at; /* Unix time */
};
/* Returns the body of the POST that creates the Event, a new root. */
struct json *core_event_encode(const struct core_event_draft *e);
/*
 * Returns true for a Warning that was reported at or after `at`, an RFC 3339 time (NULL: at any
 * time).
 */
bool core_event_is_news(const struct core_event *e, const char *at);
/* Appends "Event REASON: MESSAGE" as one line, both cut to 300 bytes. */
void core_event_add_line(struct str *out, const char *reason, const char *message);
