/* SPDX-License-Identifier: Apache-2.0 */
/* Between validate.c (schemas) and validate_meta.c (metadata). */
#pragma once

#include "test/sim/kinds/validate.h"

void validate_metadata(const struct resource *res, const struct json *object,
                       const struct json *old, struct invalid *ret);
