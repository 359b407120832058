/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery, which clients ask first: /version, /api, /apis and the lists of resources. */
#pragma once

#include "test/sim/api/status.h"

/* False: it is not a path of discovery. */
bool api_discovery(const char *path, struct reply *ret);
