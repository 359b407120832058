/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server checks before it stores an object: metadata rules of every kind, and
 * the schemas of DPF's custom resources (required fields, types, enums, defaults, CEL rules,
 * immutability)
 * with their messages.
 */
#pragma once

#include "common/json.h"
#include "test/sim/kinds/invalid.h"
#include "test/sim/kinds/resource.h"

/* Removes what the schema does not know and fills in defaults. */
void validate_prune(const struct api_resource *res, struct json *object);
/* old NULL: a creation. Adds to ret what is wrong. */
void validate_object(const struct api_resource *res, const struct json *object,
                     const struct json *old, struct invalid *ret);
