/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from a line of a watch stream what tells whether somebody waits for its object. Builds no
 * tree, because most lines are about objects that nobody waits for.
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
 * False when the line is not an event. Accepts some lines that are not valid JSON: the thread that
 * uses the object parses it. *ret points into the line.
 */
bool kube_event_scan(const char *line, size_t n, struct kube_event *ret);
bool line_span_eq(struct line_span s, const char *text);
