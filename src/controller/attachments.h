/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a volume, and how many volumes a node has: by the labels of our own attachments, and one
 * look at those that have none. Page by page, keeping nothing but counts and the few names asked
 * for.
 */
#pragma once

#include "dpf/dpu_attachment.h"
#include "controller/controller.h"

/* The labels of a new attachment. */
void attachment_label(const struct controller *c, struct json *object, const char *node,
                      const char *volume);

struct attachment_scan {
	const char *volume; /* asked about */
	const char *node;   /* asked about; NULL: no node */
	bool pf;            /* function type asked about, for on_node */
	/* answers */
	char *elsewhere;      /* a node other than `node` that has the volume (any node when that is
	                         NULL), or NULL */
	char *elsewhere_name; /* its attachment */
	size_t n_elsewhere;
	bool here;      /* the volume has its attachment for `node` */
	size_t on_node; /* attachments of this driver and function type on `node`, of any volume */
};

/* All but on_node, which is only begun. */
int attachments_scan(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                     struct err *err) MUST_CHECK;
/* Completes on_node, after attachments_scan(). */
int attachments_count(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err) MUST_CHECK;
void attachment_scan_clear(struct attachment_scan *scan);
static inline void attachment_scan_clear_p(struct attachment_scan *scan)
{
	attachment_scan_clear(scan);
}

/*
 * Hands out every attachment that may be of the volume: those with its label and those without any.
 * The same may be handed out twice (kube_list). fn: see kube_list().
 */
int attachments_each(const struct controller *c, const char *volume,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err) MUST_CHECK;
