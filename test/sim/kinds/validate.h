/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server checks before it stores an object: the rules for metadata, which hold for
 * every kind, and the schemas of DPF's custom resources (required fields, types, enums, defaults,
 * CEL rules, immutability).
 */
#pragma once

#include "common/json.h"
#include "test/sim/kinds/invalid.h"
#include "test/sim/kinds/resource.h"

/* Removes the fields that the schema does not know and fills in its defaults. */
void validate_prune(const struct api_resource *res, struct json *object);
/* Adds to *ret what is wrong. old: what the object replaces; NULL: it is new. */
void validate_object(const struct api_resource *res, const struct json *object,
                     const struct json *old, struct invalid *ret);
