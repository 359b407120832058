/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All attachments of a namespace, 44 bytes each: which volume is on which node, and the uid of the
 * attachment. The name of a node is stored once; the name of an attachment only if it is not
 * derived from node and volume. Not thread-safe, no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "controller/attachment_uid.h"

struct attachment_table;

/* The known fields of one attachment. */
struct attachment_fact {
	const char *volume, *node, *name, *uid;
	bool ours;     /* created by this driver, so it counts towards the node's limit */
	bool labelled; /* has the labels by which a list finds it */
	bool attached; /* status.dpuAttached: its node may use the volume */
};

struct attachment_table *attachment_table_new(void);
struct attachment_table *attachment_table_free(struct attachment_table *t); /* returns NULL */
void attachment_table_clear(struct attachment_table *t);

enum attachment_source {
	ATTACHMENT_LISTED,  /* it existed when all attachments were read */
	ATTACHMENT_CHANGED, /* an event of the watch; the first one sets the sequence number */
	ATTACHMENT_WRITTEN, /* this driver's own POST, whose event has not arrived yet */
};
/*
 * Adds or updates an attachment. Returns true if this is the first event of an attachment that this
 * driver's own POST has created. An attachment in state "attached" stays so until an event changes
 * it, because an answer may be older than an event.
 */
bool attachment_table_put(struct attachment_table *t, const struct attachment_fact *f,
                          enum attachment_source source);
/*
 * Removes the attachment with this uid; an attachment with a different uid stays. A later
 * ATTACHMENT_WRITTEN does not add the removed uid again.
 */
void attachment_table_remove(struct attachment_table *t, const char *volume, const char *node,
                             const char *uid);

/* One attachment of a volume. */
struct attachment_ref {
	char *node, *name; /* owned */
	bool attached;
	struct attachment_uid uid; /* for attachment_table_drop(); a hash if it is not a UUID */
	/*
	 * The sequence number of the attachment's first event, from 1. 0: it was listed, so it is
	 * older than all attachments with an event. ATTACHMENT_UNSEEN: no event has arrived yet.
	 */
	uint32_t seq;
};
#define ATTACHMENT_UNSEEN UINT32_MAX
#define ATTACHMENT_ANY_AGE (UINT32_MAX - 1)

struct attachment_refs {
	struct attachment_ref *v;
	size_t n;
	size_t all; /* number of attachments found, including those beyond `most` */
};
/*
 * Returns true if the volume has an attachment to the node. The time does not depend on the number
 * of the volume's attachments.
 */
bool attachment_table_is_on(const struct attachment_table *t, const char *volume, const char *node);
/*
 * Finds the volume's attachments, except the one to the node `except` (may be NULL). Only those
 * older than the sequence number `than` are found; ATTACHMENT_ANY_AGE: all. *ret has the first
 * `most` of them, sorted by node name.
 */
void attachment_table_find(const struct attachment_table *t, const char *volume, const char *except,
                           uint32_t than, size_t most, struct attachment_refs *ret);
void attachment_refs_clear(struct attachment_refs *p);
DEFINE_AUTO_VALUE(struct attachment_refs, attachment_refs_clear);
/* Removes an attachment that a read has disproved. */
void attachment_table_drop(struct attachment_table *t, const char *volume,
                           const struct attachment_ref *p);
/*
 * Writes to `ret` the uid of the volume's attachment to the node, under the name derived from both.
 * Returns false if no uid is known, if several are known (at most one of these attachments still
 * exists), or if the uid does not have an API server's format.
 */
bool attachment_table_uid(const struct attachment_table *t, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1]);
/*
 * Returns true if the attachment with sequence number `a` is older than the one with `b`, or if
 * their order is unknown.
 */
bool attachment_is_older(uint32_t a, uint32_t b);
/*
 * Returns the sequence number of this attachment; ATTACHMENT_UNSEEN if the attachment is not in the
 * table or its event has not arrived.
 */
uint32_t attachment_table_seq(const struct attachment_table *t, const char *volume,
                              const char *node, const char *uid);

struct attachment_count {
	size_t all;        /* attachments to the node */
	size_t ours;       /* of these, created by this driver */
	size_t unlabelled; /* of these, those without labels */
};
struct attachment_count attachment_table_count(const struct attachment_table *t, const char *node);

struct attachment_size {
	size_t attachments, nodes, names;
	size_t bytes; /* of all tables, without malloc's overhead */
};
struct attachment_size attachment_table_size(const struct attachment_table *t);
