/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts up what the API server sends many objects in, without a tree. Of a line of a watch stream
 * most are about objects that nobody waits for. A page of a list would need 26 times its size as a
 * tree of all its objects: they are parsed one by one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/*
 * The number of a resourceVersion, which orders the versions of a collection. 0: the version is
 * unknown or not a number (digits, no leading zero, below 2^64).
 */
uint64_t kube_version_number(struct line_span version);

/* One member of an object, looked for by its name. */
struct kube_member {
	const char *name;
	struct line_span value; /* as it is written, a string with its quotes; n 0: not there */
};

/* Fills in the values of members of the JSON object, in one pass. False when it is no object. */
bool kube_members(struct line_span object, struct kube_member *members, size_t n);
/* The text of a string; false for another value, and for a string with an escape in it. */
bool kube_plain_text(struct line_span value, struct line_span *ret);

/*
 * Before a parser reads the object: takes out metadata.managedFields, which nobody here reads and
 * which is up to half of it, without moving anything: spaces stay. Does nothing to what is no such
 * object.
 */
void kube_blank_unread(char *object, size_t n);

struct kube_page {
	struct line_span items; /* the objects that were not taken yet, with commas between them */
	struct line_span metadata; /* of the list, a JSON object; n 0: not there */
};

/*
 * False when the body is not a list of this kind ("DPUVolume": its kind is DPUVolumeList), an
 * object with an array "items" (null: an empty one). Another list says nothing about what there is.
 * As with events, some of what is accepted is not valid JSON. *ret points into the body.
 */
bool kube_page_scan(const char *body, size_t n, const char *kind, struct kube_page *ret);
/* What kube_page_next() returns instead of 0 for an item, and -1 when no object follows. */
enum { KUBE_PAGE_END = 1 };
int kube_page_next(struct kube_page *page, struct line_span *ret);
