/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a bundle share. Only bundle*.c include it. */
#pragma once

#include <string.h>

#include "inspect/inspect.h"
#include "inspect/tar.h"

struct bundle {
	const struct inspect_report *r;
	const struct inspect_options *o;
	struct deadline d;
	struct tar tar;
	bool asked_api; /* and it has answered: the report has its side */
};

static inline int bundle_add(const struct bundle *b, const char *name, const char *text,
                             struct err *err)
{
	return tar_add(&b->tar, name, text, strlen(text), err);
}
/* bundle_objects.c: the objects of the driver, 1 MiB of lines at a time. */
int bundle_objects(struct bundle *b, struct err *err) MUST_CHECK;
/* bundle_host.c: flags, mounts, and the page of the running driver's metrics. */
int bundle_flags(struct bundle *b, struct err *err) MUST_CHECK;
int bundle_mounts(struct bundle *b, struct err *err) MUST_CHECK;
int bundle_metrics(struct bundle *b, struct err *err) MUST_CHECK;
