/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of a watch stream, as far as it is needed to know whether anybody waits for it: read
 * without building a tree, because most lines are about objects that nobody waits for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum event_type { EVENT_ADDED, EVENT_MODIFIED, EVENT_DELETED, EVENT_BOOKMARK, EVENT_ERROR };

/* A piece of the line, not terminated. */
struct line_span {
	const char *at;
	size_t n;
};

struct kube_event {
	enum event_type type;
	struct line_span object;                      /* the whole JSON object */
	struct line_span name, uid, resource_version; /* of its metadata; n 0: not there */
};

/*
 * False when the line is not an event. Accepts some lines that are not quite JSON: who uses the
 * object parses it.
 */
bool kube_event_scan(const char *line, size_t n, struct kube_event *ret);
bool line_span_eq(struct line_span s, const char *text);
