/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI v3 document of an API group, as far as the tables in schema.c contain it. */
#pragma once

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

/* Is it /openapi/v3/apis/GROUP/VERSION of a group whose kinds have schemas? */
bool api_openapi_is(const char *path);
void api_openapi(const struct api_call *call, const struct target *t, struct reply *ret);
