/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where a volume is attached and counts the attachments of a node: by the labels of our own
 * attachments, plus one list of those without labels. Lists are read page by page; only counts and
 * a few names are kept.
 */
#pragma once

#include "dpf/dpu_attachment.h"
#include "controller/controller.h"

/* The labels of a new attachment. */
void attachment_label(const struct controller *c, struct json *object, const char *node,
                      const char *volume);

struct attachment_scan {
	/* The question. */
	const char *volume;
	const char *node; /* NULL: no particular one */
	/* The answer. Strings are owned; NULL when n_elsewhere is 0. */
	size_t n_elsewhere;   /* attachments of the volume to nodes other than `node` */
	char *elsewhere;      /* the first such node */
	char *elsewhere_name; /* the name of that attachment */
	bool here;            /* the volume is attached to `node` */
	size_t on_node;       /* attachments of this driver to `node`, of any function type */
};

/* Fills in the answer, except that on_node only counts attachments without labels. */
int attachments_scan(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                     struct err *err) MUST_CHECK;
/* Adds the labelled attachments to on_node; to be called after attachments_scan(). */
int attachments_count(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err) MUST_CHECK;
void attachment_scan_clear(struct attachment_scan *scan);
static inline void attachment_scan_clear_p(struct attachment_scan *scan)
{
	attachment_scan_clear(scan);
}

/*
 * Calls fn, as kube_list() does, for every attachment that may be of the volume: those with its
 * label and those without labels. An attachment may come twice.
 */
int attachments_each(const struct controller *c, const char *volume,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err) MUST_CHECK;
