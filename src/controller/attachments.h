/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the nodes that a volume is attached to, and counts the attachments of a node, by the index
 * (attachment_index.h); a read confirms each "attached". If the index cannot be used, the driver
 * lists its own attachments by their labels, and the attachments without labels
 * (attachment_lists.h).
 */
#pragma once

#include "common/cleanup.h"
#include "controller/attachment_table.h"
#include "controller/controller.h"
#include "dpf/dpu_attachment.h"

/* Sets the labels of a new attachment. */
void attachment_label(const struct controller *c, struct json *object, const char *node,
                      const char *volume);

struct attachment_scan {
	/* The request. */
	const char *volume;
	const char *node; /* NULL: no particular node */
	bool anywhere;    /* attachments to other nodes do not matter and are not read */
	/*
	 * Count only attachments older than the sequence number `than` (attachment_table.h). Lists
	 * have no order, so with lists all attachments count. ATTACHMENT_UNSEEN: use lists only.
	 */
	bool older_only;
	uint32_t than;
	/* The result. Strings are owned; NULL if n_elsewhere is 0. */
	size_t n_elsewhere;   /* attachments of the volume to nodes other than `node` */
	char *elsewhere;      /* the first such node */
	char *elsewhere_name; /* the name of that attachment */
	bool here;            /* the volume is attached to `node` */
	size_t on_node;       /* attachments of this driver to `node`, of any function type */
	size_t unlabelled;    /* attachments to `node` without labels */
	bool by_index;        /* on_node comes from the index; attachments_count() confirms it */
};

/*
 * Fills in the result; without the index, on_node counts only attachments without labels. Waits
 * while the index is being filled.
 */
int attachments_scan(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                     struct err *err) MUST_CHECK;
/* Counts on_node by listing the labelled attachments; call it after attachments_scan(). */
int attachments_count(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err) MUST_CHECK;
/*
 * Returns true if the node has an attachment according to the index. Returns false if this is not
 * known without a request.
 */
bool attachments_know_node(const struct controller *c, const char *node);
/*
 * Finds, without a request, the uid of the volume's attachment to the node, under the name derived
 * from both. The object may be deleted, or another object may have that name now.
 */
bool attachments_know_uid(const struct controller *c, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1]);
/*
 * Updates the index at once: with an object that the API server has returned for this driver's
 * POST, and with an attachment whose deletion was proven.
 */
void attachment_there(const struct controller *c, const struct json *object);
void attachment_gone(const struct controller *c, const char *volume, const char *node,
                     const char *uid);

void attachment_scan_clear(struct attachment_scan *scan);
DEFINE_AUTO_VALUE(struct attachment_scan, attachment_scan_clear);

/*
 * Calls fn, as kube_list() does, for every attachment that may belong to the volume. The
 * attachments are read during the call: those in the index, or those listed with the volume's label
 * or without labels. An attachment may be passed twice.
 */
int attachments_each(const struct controller *c, const char *volume,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err) MUST_CHECK;
