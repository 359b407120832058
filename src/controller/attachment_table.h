/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All attachments of a namespace, an entry of 44 bytes each: which volume is on which node, and the
 * uid of the attachment. Names of nodes are kept once, names of attachments only where they are not
 * made of node and volume. Not thread-safe, asks nobody.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "controller/attachment_uid.h"

struct attachment_table;

/* What is known of one attachment, its own text. */
struct attachment_fact {
	const char *volume, *node, *name, *uid;
	bool ours;     /* made by this driver: it counts for the node's limit */
	bool labelled; /* with the labels by which a list finds it */
	bool attached; /* status.dpuAttached: its node may use the volume */
};

struct attachment_table *attachment_table_new(void);
struct attachment_table *attachment_table_free(struct attachment_table *t); /* returns NULL */
void attachment_table_clear(struct attachment_table *t);

enum attachment_source {
	ATTACHMENT_LISTED,  /* it was there when all were read */
	ATTACHMENT_CHANGED, /* an event of the watch: the first one sets its sequence number */
	ATTACHMENT_WRITTEN, /* our own POST, whose event has not come yet */
};
/*
 * True: this is the first event of an attachment that our own POST has created. An attachment that
 * is attached stays so until an event says otherwise: an answer may be older than an event.
 */
bool attachment_table_put(struct attachment_table *t, const struct attachment_fact *f,
                          enum attachment_source source);
/* An object of another uid stays. One of this uid is not WRITTEN again. */
void attachment_table_remove(struct attachment_table *t, const char *volume, const char *node,
                             const char *uid);

/* One attachment of a volume. */
struct attachment_ref {
	char *node, *name; /* owned */
	bool attached;
	struct attachment_uid uid; /* for attachment_table_drop(); a hash where it is no UUID */
	/*
	 * The sequence number of its first event, from 1; 0: it was listed, so it is older than any
	 * of these; ATTACHMENT_UNSEEN: no event has come yet.
	 */
	uint32_t seq;
};
#define ATTACHMENT_UNSEEN UINT32_MAX
#define ATTACHMENT_ANY_AGE (UINT32_MAX - 1)

struct attachment_refs {
	struct attachment_ref *v;
	size_t n;
	size_t all; /* also of those above `most` */
};
/* Whether the volume has one to the node. As fast for a volume that all nodes have. */
bool attachment_table_is_on(const struct attachment_table *t, const char *volume, const char *node);
/*
 * Those of the volume, but not to the node `except` (may be NULL), and only such as are older than
 * the sequence number `than`, or ATTACHMENT_ANY_AGE. In the order of their nodes' names, the first
 * `most`.
 */
void attachment_table_find(const struct attachment_table *t, const char *volume, const char *except,
                           uint32_t than, size_t most, struct attachment_refs *ret);
void attachment_refs_clear(struct attachment_refs *p);
DEFINE_AUTO_VALUE(struct attachment_refs, attachment_refs_clear);
/* It has proved wrong. */
void attachment_table_drop(struct attachment_table *t, const char *volume,
                           const struct attachment_ref *p);
/*
 * The uid of the volume's attachment to the node that has the name made of both. False: none is
 * known, or several are (at most one of them is still there), or the uid is none of an API server.
 */
bool attachment_table_uid(const struct attachment_table *t, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1]);
/* Is the attachment of sequence number `a` older than that of `b`, or is their order unknown? */
bool attachment_is_older(uint32_t a, uint32_t b);
/* The sequence number of this attachment; ATTACHMENT_UNSEEN if it has none or is not there. */
uint32_t attachment_table_seq(const struct attachment_table *t, const char *volume,
                              const char *node, const char *uid);

struct attachment_count {
	size_t all;        /* attachments to the node */
	size_t ours;       /* of this driver */
	size_t unlabelled; /* of these, without labels */
};
struct attachment_count attachment_table_count(const struct attachment_table *t, const char *node);

struct attachment_size {
	size_t attachments, nodes, names;
	size_t bytes; /* of all tables, without what malloc() adds */
};
struct attachment_size attachment_table_size(const struct attachment_table *t);
