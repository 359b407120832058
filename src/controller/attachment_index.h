/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which volume is attached to which node, without asking the API server: a table of all attachments
 * of the namespace (attachment_table.h), kept by following them (kube_follow.h) and corrected at
 * once by what this driver writes. Any thread; no I/O.
 *
 * The table follows the watch, so "yes" may be over by now, and is to be confirmed by a read. "No"
 * is as good as the watch is: attachment_index_ready() says when it is not to be used.
 */
#pragma once

#include "common/deadline.h"
#include "controller/attachment_table.h"
#include "kube/kube.h"

struct attachment_index;

/* What an attachment's object says; texts point into it. */
struct attachment_fact attachment_fact_of(const struct json *object, const char *driver_name);
/* False: it names no volume or no node, so it is nobody's attachment. */
bool attachment_fact_is_whole(const struct attachment_fact *f);

/*
 * Begins to follow the attachments of the namespace. To be freed after the client, whose thread
 * passes its events to the index.
 */
struct attachment_index *attachment_index_new(struct kube *k, const char *ns,
                                              const char *driver_name);
struct attachment_index *attachment_index_free(struct attachment_index *x); /* returns NULL */

/* attachment_index_ready(): lists are to be used instead, the watch does not work. */
enum { INDEX_UNUSABLE = 1 };
/*
 * Waits until all attachments have been read, or none came for some seconds. 0; INDEX_UNUSABLE; or
 * -1 when the time is over, with how many have been read so far.
 */
int attachment_index_ready(struct attachment_index *x, struct deadline d, struct err *err)
	MUST_CHECK;

/*
 * The same as of the table (attachment_table.h). False: all are being read anew at this moment, so
 * what is not found may be there.
 */
bool attachment_index_find(struct attachment_index *x, const char *volume, const char *except,
                           uint32_t than, size_t most, struct attachment_refs *ret);
bool attachment_index_is_on(struct attachment_index *x, const char *volume, const char *node,
                            bool *ret);
struct attachment_count attachment_index_count(struct attachment_index *x, const char *node);
bool attachment_index_uid(struct attachment_index *x, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1]);
void attachment_index_drop(struct attachment_index *x, const char *volume,
                           const struct attachment_ref *p);

/* Our POST was answered with 201: the attachment is there before its event comes. */
void attachment_index_made(struct attachment_index *x, const struct attachment_fact *f);
/* The attachment of this uid has been seen to be gone. */
void attachment_index_gone(struct attachment_index *x, const char *volume, const char *node,
                           const char *uid);
/*
 * Waits for the first event of this attachment; after it the index has all older attachments. Gives
 * up when neither an event nor an answer has brought an attachment for INDEX_PATIENCE_MS, and after
 * twice that time at the latest. Returns the attachment's sequence number; ATTACHMENT_UNSEEN: the
 * event did not come, and the index must not be used until such an event comes.
 */
#define INDEX_PATIENCE_MS 5000
uint32_t attachment_index_await(struct attachment_index *x, const char *volume, const char *node,
                                const char *uid, struct deadline d);
