/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attachments without our labels, for calls that may not use the index. They are read page by
 * page into a table, by one call at a time: calls that come meanwhile share the next reading. Any
 * thread.
 */
#pragma once

#include "controller/attachment_table.h"
#include "controller/controller.h"

/* The selector of what has no labels of ours. */
#define WITHOUT_LABEL "!" LABEL_VOLUME

struct attachment_list;

struct attachment_list *attachment_list_new(void);
struct attachment_list *attachment_list_free(
	struct attachment_list *l); /* no call may be in it; returns NULL */

/* How many calls are in it now, with the one that reads. */
unsigned attachment_list_callers(struct attachment_list *l);

/*
 * Calls `ask` once with a table that was read after this function was called. l NULL: the call
 * reads for itself. -1: the attachments cannot be listed, or the time is over.
 */
int attachment_list_ask(struct attachment_list *l, const struct controller *c, struct deadline d,
                        void (*ask)(void *arg, const struct attachment_table *t), void *arg,
                        struct err *err) MUST_CHECK;
