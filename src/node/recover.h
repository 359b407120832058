/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver that was killed has left on this host, and nobody would ask for again. No state. */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "node/node.h"

/*
 * Before the first call: clears driver_override of the functions for volumes, removes the
 * formatting records that can match no disk any more (of another boot, or half written). Mounts,
 * bindings and records of this boot are left to the calls that will come for them. Tells `did` (""
 * : nothing was left). -1: something could not be undone; the rest was tried.
 */
int node_recover(const struct node *n, struct str *did, struct err *err) MUST_CHECK;
