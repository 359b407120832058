/* SPDX-License-Identifier: Apache-2.0 */
/* What the server serves: /version, /api, /apis and the lists of resources. */
#pragma once

#include "test/sim/api/status.h"

/* false when the path is none of discovery's. */
bool api_discovery(const char *path, struct reply *ret);
