/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of the attachments, by volume and node. It is a table of all attachments of the
 * namespace (attachment_table.h), kept up to date by a watch (kube_follow.h) and, at once, by this
 * driver's own writes. Any thread; no I/O.
 *
 * "Attached" may be stale, because the table lags behind the API server, and has to be confirmed by
 * a read. "Not attached" is as reliable as the watch; attachment_index_ready() tells when the index
 * must not be used.
 */
#pragma once

#include "common/deadline.h"
#include "controller/attachment_table.h"
#include "kube/kube.h"

struct attachment_index;

/* Returns the fields of an attachment's object; the strings point into the object. */
struct attachment_fact attachment_fact_of(const struct json *object, const char *driver_name);
/* Returns false if the attachment names no volume or no node, and so belongs to no volume. */
bool attachment_fact_is_whole(const struct attachment_fact *f);

/*
 * Starts to follow the attachments of the namespace. Free the index after the client, whose thread
 * passes events to the index.
 */
struct attachment_index *attachment_index_new(struct kube *k, const char *ns,
                                              const char *driver_name);
struct attachment_index *attachment_index_free(struct attachment_index *x); /* returns NULL */

/*
 * Return value of attachment_index_ready(): the watch does not work, so lists have to be used
 * instead.
 */
enum { INDEX_UNUSABLE = 1 };
/*
 * Waits until all attachments have been read, or until none has arrived for some seconds. Returns
 * 0, INDEX_UNUSABLE, or -1 at the deadline; the error has the number of attachments read so far.
 */
int attachment_index_ready(struct attachment_index *x, struct deadline d, struct err *err)
	MUST_CHECK;

/*
 * Like the functions of attachment_table.h. attachment_index_find() and attachment_index_is_on()
 * return false while all attachments are being re-read, when an attachment that is not found may
 * exist.
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

/*
 * Adds an attachment before its event arrives; call it when this driver's POST was answered with
 * 201.
 */
void attachment_index_made(struct attachment_index *x, const struct attachment_fact *f);
/* Records that the attachment with this uid was deleted. */
void attachment_index_gone(struct attachment_index *x, const char *volume, const char *node,
                           const char *uid);
/*
 * Waits for the first event of this attachment; after that event the index has all older
 * attachments. Gives up when no event and no answer with an attachment has arrived for
 * INDEX_PATIENCE_MS, and always after twice that time. Returns the attachment's sequence number;
 * ATTACHMENT_UNSEEN: the event did not arrive, and the index must not be used until it does.
 */
#define INDEX_PATIENCE_MS 5000
uint32_t attachment_index_await(struct attachment_index *x, const char *volume, const char *node,
                                const char *uid, struct deadline d);
