/* SPDX-License-Identifier: Apache-2.0 */
/* Who has a volume: one pass over the attachments of the namespace, page by page, keeping nothing but counts and
   the few names asked for. */
#pragma once

#include "common/dpf/dpu_attachment.h"
#include "controller/controller.h"

struct attachment_scan {
	const char *volume; /* asked about */
	const char *node;   /* asked about; NULL: no node */
	bool pf;            /* function type asked about, for on_node */
	/* answers */
	char *elsewhere; /* a node other than `node` that has the volume (any node when that is NULL), or NULL */
	char *elsewhere_name; /* its attachment */
	size_t n_elsewhere;
	bool here;      /* the volume has its attachment for `node` */
	size_t on_node; /* attachments of this driver and function type on `node`, of any volume */
};

int attachments_scan(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                     struct err *err) MUST_CHECK;
void attachment_scan_clear(struct attachment_scan *scan);
static inline void attachment_scan_clear_p(struct attachment_scan *scan)
{
	attachment_scan_clear(scan);
}
