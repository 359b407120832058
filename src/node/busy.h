/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_unmount() that says who is in the way: "Device or resource busy" alone sends a person
 * searching.
 */
#pragma once

#include "common/deadline.h"
#include "node/node.h"
#include "node/place.h"

/*
 * A mount that is busy: UNAVAILABLE naming what is mounted below it, the loop devices over it, the
 * processes that hold it.
 */
int busy_unmount(const struct node *n, const struct place *p, bool lazy, struct deadline d,
                 struct err *err) MUST_CHECK;
