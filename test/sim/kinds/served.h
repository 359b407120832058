/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The versions in which the kinds of storage.dpu.nvidia.com are served. They are stored in the
 * version of resource.c, and only their names differ, as with the conversion "None" of a CRD.
 * Process-wide: one list for all. Any thread.
 */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "test/sim/kinds/resource.h"

/*
 * Each a version, or "VERSION-FIELD": its published schema of DPUVolume lacks this field of spec.
 * An empty list: the version of resource.c. INVALID_ARGUMENT names the invalid one.
 */
int served_set(const struct strs *versions, struct err *err) MUST_CHECK;
/* The versions of a resource, in the API server's order. The caller clears *ret. */
void served_versions(const struct api_resource *r, struct strs *ret);
bool served_has(const struct api_resource *r, const char *version);
/* The field that the version's schema lacks, malloc'ed; NULL: none. */
char *served_lacks(const char *version);
/*
 * The text with the apiVersion of one version replaced by another's, malloc'ed. Nothing else in
 * objects and lists has this form.
 */
char *served_convert(const char *text, const struct api_resource *r, const char *from,
                     const char *to);
