/* SPDX-License-Identifier: Apache-2.0 */
/* get and list. */
#pragma once

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

void api_get(const struct api_call *call, const struct target *t, struct reply *ret);
void api_list(const struct api_call *call, const struct target *t, struct reply *ret);
