/* SPDX-License-Identifier: Apache-2.0 */
/* /sim/...: the switches of the simulator. README.md lists them. */
#pragma once

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

void switches_handle(const struct api_call *call, struct reply *ret);
