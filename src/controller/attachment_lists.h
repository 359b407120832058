/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of attachments, for calls that may not use the index. Each kind is read page by page into a
 * table, by one call at a time and for all that wait: calls that come meanwhile share the next
 * list, which asks for the volumes or nodes of all of them. Any thread.
 */
#pragma once

#include "controller/attachment_table.h"
#include "controller/controller.h"

enum attachment_listed {
	ATTACHMENTS_OF_VOLUME, /* by their label */
	ATTACHMENTS_ON_NODE,   /* by their label */
	ATTACHMENTS_UNLABELLED,
	ATTACHMENTS_LISTED_N,
};

struct attachment_lists;

struct attachment_lists *attachment_lists_new(void);
struct attachment_lists *attachment_lists_free(
	struct attachment_lists *l); /* no call may be in it; returns NULL */

/* How many calls are in it now for that kind, with the one that reads. */
unsigned attachment_lists_callers(struct attachment_lists *l, enum attachment_listed which);

/*
 * Calls `ask` once with a table that was read after this function was called. It has all
 * attachments with the label of the volume or node of that name (ignored for those without labels),
 * and perhaps others. l NULL: the call reads for itself. -1: the attachments cannot be listed, or
 * the time is over.
 */
int attachment_lists_ask(struct attachment_lists *l, const struct controller *c,
                         enum attachment_listed which, const char *name, struct deadline d,
                         void (*ask)(void *arg, const struct attachment_table *t), void *arg,
                         struct err *err) MUST_CHECK;
