/* SPDX-License-Identifier: Apache-2.0 */
/* One file for a support case: the report, the objects without secrets, and what is beside them. */
#pragma once

#include "inspect/inspect.h"

/*
 * Writes o->bundle, which must not exist (mode 0600), or with "-" the standard output: a tape
 * archive. What cannot be had is named in it instead. -1: nothing was written, or the file is gone
 * again.
 */
int inspect_bundle(const struct inspect_report *r, const struct inspect_options *o,
                   struct deadline d, struct err *err) MUST_CHECK;
