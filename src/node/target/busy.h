/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_unmount() with an error that names what keeps the mount busy: "Device or resource busy"
 * alone helps no operator.
 */
#pragma once

#include "common/deadline.h"
#include "node/node.h"
#include "node/target/place.h"

/*
 * UNAVAILABLE when the mount is still busy after a second; the text names what is mounted below it,
 * the loop device over it, or the processes that hold it.
 */
int busy_unmount(const struct node *n, const struct place *p, bool lazy, struct deadline d,
                 struct err *err) MUST_CHECK;

/* Sets how long a busy mount is waited for, in ms, for tests; before the first call. */
void busy_limit(int64_t ms);
