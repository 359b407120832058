/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for metadata, which are the same for every kind. */
#pragma once

#include "common/json.h"
#include "test/sim/kinds/invalid.h"
#include "test/sim/kinds/resource.h"

void validate_metadata(const struct api_resource *res, const struct json *object,
                       const struct json *old, struct invalid *ret);
