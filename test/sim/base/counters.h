/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts requests by verb and resource, so that a test can assert "one write, no polling".
 * Thread-safe.
 */
#pragma once

#include "common/json.h"

struct counters;
struct counters *counters_new(void);
struct counters *counters_free(struct counters *c);
void counters_count(struct counters *c, const char *verb, const char *resource);
/* {"create": {"dpuvolumes": 1}, ...}; a new root. */
struct json *counters_json(struct counters *c);
void counters_reset(struct counters *c);
