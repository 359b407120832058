/* SPDX-License-Identifier: Apache-2.0 */
/* create, update, patch, delete. */
#pragma once

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

void api_create(const struct api_call *call, const struct target *t, struct reply *ret);
void api_update(const struct api_call *call, const struct target *t, struct reply *ret);
void api_patch(const struct api_call *call, const struct target *t, struct reply *ret);
void api_delete(const struct api_call *call, const struct target *t, struct reply *ret);
