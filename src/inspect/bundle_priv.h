/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of a bundle. Only bundle*.c include it. */
#pragma once

#include <string.h>

#include "inspect/inspect.h"
#include "inspect/tar.h"

struct bundle {
	const struct inspect_report *r;
	const struct inspect_options *o;
	struct deadline d;
	struct tar tar;
	bool asked_api; /* the API server has answered, and the report has its facts */
};

static inline int bundle_add(const struct bundle *b, const char *name, const char *text,
                             struct err *err)
{
	return tar_add(&b->tar, name, text, strlen(text), err);
}
/* In bundle_objects.c. Adds the driver's objects, 1 MiB of lines at a time. */
int bundle_objects(struct bundle *b, struct err *err) MUST_CHECK;
/* In bundle_host.c. Add flags, mounts, and the metrics page of the running driver. */
int bundle_flags(struct bundle *b, struct err *err) MUST_CHECK;
int bundle_mounts(struct bundle *b, struct err *err) MUST_CHECK;
int bundle_metrics(struct bundle *b, struct err *err) MUST_CHECK;
