/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where a volume is attached and counts the attachments of a node: in the index
 * (attachment_index.h), whose "yes" is confirmed by a read. Where the index cannot be used, by
 * lists: of our own attachments by their labels, and of those without labels, each read page by
 * page into a table and for all calls that wait (attachment_lists.h).
 */
#pragma once

#include "common/cleanup.h"
#include "controller/attachment_table.h"
#include "controller/controller.h"
#include "dpf/dpu_attachment.h"

/* The labels of a new attachment. */
void attachment_label(const struct controller *c, struct json *object, const char *node,
                      const char *volume);

struct attachment_scan {
	/* The question. */
	const char *volume;
	const char *node; /* NULL: no particular one */
	bool anywhere;    /* other nodes do not matter: nothing is asked about them */
	/*
	 * Only attachments older than this sequence number count (attachment_table.h). Lists have
	 * no order: with them all count. UNSEEN: only lists are used.
	 */
	bool older_only;
	uint32_t than;
	/* The answer. Strings are owned; NULL when n_elsewhere is 0. */
	size_t n_elsewhere;   /* attachments of the volume to nodes other than `node` */
	char *elsewhere;      /* the first such node */
	char *elsewhere_name; /* the name of that attachment */
	bool here;            /* the volume is attached to `node` */
	size_t on_node;       /* attachments of this driver to `node`, of any function type */
	size_t unlabelled;    /* of these, without labels */
	bool by_index;        /* on_node is the index's: attachments_count() confirms it */
};

/*
 * Fills in the answer, except that without the index on_node only counts attachments without
 * labels. While the index is being filled this waits for it.
 */
int attachments_scan(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                     struct err *err) MUST_CHECK;
/* Counts on_node by a list of the labelled ones; to be called after attachments_scan(). */
int attachments_count(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err) MUST_CHECK;
/* Is there an attachment to the node? False also where that would have to be asked. */
bool attachments_know_node(const struct controller *c, const char *node);
/*
 * The uid of the volume's attachment to the node, under the name that is made of both, as far as it
 * is known without asking: the object may be gone, or another one may have that name by now.
 */
bool attachments_know_uid(const struct controller *c, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1]);
/*
 * The index learns at once of an object that the API server has just shown, because our POST has
 * made it, and of one whose end was proven.
 */
void attachment_there(const struct controller *c, const struct json *object);
void attachment_gone(const struct controller *c, const char *volume, const char *node,
                     const char *uid);

void attachment_scan_clear(struct attachment_scan *scan);
DEFINE_AUTO_VALUE(struct attachment_scan, attachment_scan_clear);

/*
 * Calls fn, as kube_list() does, for every attachment that may be of the volume, as a read shows it
 * now: those of the index, or those that are listed with its label or without labels. An attachment
 * may come twice.
 */
int attachments_each(const struct controller *c, const char *volume,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err) MUST_CHECK;
