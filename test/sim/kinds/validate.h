/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server's checks before it stores an object: the rules for metadata, which apply to every
 * kind, and the schemas of DPF's custom resources (required fields, types, enums, defaults, CEL
 * rules, immutability).
 */
#pragma once

#include "common/json.h"
#include "test/sim/kinds/invalid.h"
#include "test/sim/kinds/resource.h"

/* Removes the fields that the schema does not know and fills in its defaults. */
void validate_prune(const struct api_resource *res, struct json *object);
/* Adds the errors to *ret. old: the replaced object; NULL: it is new. */
void validate_object(const struct api_resource *res, const struct json *object,
                     const struct json *old, struct invalid *ret);
