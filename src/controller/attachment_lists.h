/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of attachments, for calls that must not use the index. For each kind of list, one call at a
 * time reads the pages into a table, on behalf of all waiting calls. Calls that arrive during a
 * list share the next list, which selects the volumes or nodes of all these calls. Any thread.
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
	struct attachment_lists *l); /* no call may be in progress; returns NULL */

/* Returns the number of calls that wait for a list of that kind, including the call that reads. */
unsigned attachment_lists_callers(struct attachment_lists *l, enum attachment_listed which);

/*
 * Calls `ask` once with a table that was read after this function was called. The table has all
 * attachments with the label of the volume or node `name` (ignored for ATTACHMENTS_UNLABELLED), and
 * possibly others. If `l` is NULL, the call reads its own list. Returns -1 if the attachments
 * cannot be listed, or if the deadline has passed.
 */
int attachment_lists_ask(struct attachment_lists *l, const struct controller *c,
                         enum attachment_listed which, const char *name, struct deadline d,
                         void (*ask)(void *arg, const struct attachment_table *t), void *arg,
                         struct err *err) MUST_CHECK;
