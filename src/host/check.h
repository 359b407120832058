/* SPDX-License-Identifier: Apache-2.0 */
/* host check. Changes nothing. */
#pragma once

#include "host/args.h"

/*
 * Adds a line for each finding to `said`: "ok", "note" (volumes of one kind cannot be attached) or
 * "bad" (no volume can), with what to do. A positive return is HOST_FAILED: one is bad.
 */
int host_check(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
