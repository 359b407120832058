/* SPDX-License-Identifier: Apache-2.0 */
/* host list. Changes nothing. */
#pragma once

#include "host/args.h"

/* Adds the list to `said`, as lines or as a JSON array. */
int host_list(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
