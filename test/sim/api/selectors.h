/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labelSelector and fieldSelector of a request; fields are metadata.name, metadata.namespace and
 * those of the kind.
 */
#pragma once

#include "common/cleanup.h"
#include "test/sim/api/label_selector.h"
#include "test/sim/store/store.h"

struct selectors {
	struct label_selector labels;
	char *name, *ns, *not_name, *not_ns; /* NULL: any */
	struct strs fields; /* "=path=value" or "!path=value" of the kind's own fields */
	bool any;           /* there is no condition */
};

/* NULL and "" select everything. INVALID_ARGUMENT names the unknown part. */
int selectors_parse(const struct api_resource *res, const char *labels, const char *fields,
                    struct selectors *ret, struct err *err) MUST_CHECK;
void selectors_clear(struct selectors *s);
DEFINE_AUTO_VALUE(struct selectors, selectors_clear);
/* For store_query.match; arg is a struct selectors. */
bool selectors_match(const void *arg, const struct object_version *v);
