/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery, the first requests of clients: /version, /api, /apis and the lists of resources. */
#pragma once

#include "test/sim/api/status.h"

/* False: the path does not belong to discovery. */
bool api_discovery(const char *path, struct reply *ret);
