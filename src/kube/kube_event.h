/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits watch lines and list pages of the API server into objects, without building a tree. For
 * most lines of a watch stream, no caller waits for the object. A list page that is parsed as one
 * tree needs 26 times its size, so its objects are parsed one by one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_type { EVENT_ADDED, EVENT_MODIFIED, EVENT_DELETED, EVENT_BOOKMARK, EVENT_ERROR };

/* A part of the line, not NUL-terminated. */
struct line_span {
	const char *at;
	size_t n;
};

struct kube_event {
	enum event_type type;
	struct line_span object;                      /* the whole JSON object */
	struct line_span name, uid, resource_version; /* from its metadata; n 0: absent */
};

/*
 * Finds type and object of a watch line. Returns false if the line is not an event. Accepts some
 * lines that are not valid JSON, because the thread that uses the object parses it. *ret points
 * into the line.
 */
bool kube_event_scan(const char *line, size_t n, struct kube_event *ret);
bool line_span_eq(struct line_span s, const char *text);
/*
 * Returns the number of a resourceVersion, by which the versions of a collection are ordered.
 * Returns 0 if the version is unknown or not a number (digits, no leading zero, below 2^64).
 */
uint64_t kube_version_number(struct line_span version);

/* One member of an object, found by its name. */
struct kube_member {
	const char *name;
	struct line_span value; /* unparsed: a string has its quotes; n 0: absent */
};

/*
 * Fills in the values of members of the JSON object, in one pass. Returns false if the JSON value
 * is not an object.
 */
bool kube_members(struct line_span object, struct kube_member *members, size_t n);
/*
 * Sets *ret to the content of a JSON string. Returns false for any other value, and for a string
 * that contains an escape.
 */
bool kube_plain_text(struct line_span value, struct line_span *ret);

/*
 * Overwrites metadata.managedFields, which no code reads and which is up to half of the object,
 * with spaces, without moving any bytes. Call it before a parser reads the object. Leaves the
 * buffer unchanged if it does not hold such an object.
 */
void kube_blank_unread(char *object, size_t n);

struct kube_page {
	struct line_span items;    /* the remaining objects, separated by commas */
	struct line_span metadata; /* of the list, a JSON object; n 0: absent */
};

/*
 * Splits a list's body into items and metadata. Returns false if the body is not a list of this
 * kind ("DPUVolume": its kind is DPUVolumeList), that is an object with an array "items" (null: an
 * empty one). A list of a different kind proves nothing about the existing objects. Like
 * kube_event_scan(), accepts some bodies that are not valid JSON. *ret points into the body.
 */
bool kube_page_scan(const char *body, size_t n, const char *kind, struct kube_page *ret);
/*
 * kube_page_next() returns 0 for an item, KUBE_PAGE_END after the last one, and -1 when no object
 * follows.
 */
enum { KUBE_PAGE_END = 1 };
int kube_page_next(struct kube_page *page, struct line_span *ret);
