/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what a killed driver has left on this host and no call would come back for. No state. */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "node/node.h"

/*
 * To be called before the first call is served. Clears driver_override of the functions for
 * volumes, and removes records that can match no disk any more: of a tool
 * (job_record_is_outdated(), or half written), and of an unstage (of another boot, or half
 * written), and mounts that were made only to look at a share. Other mounts, bindings and records
 * are left to the calls that will come for them. Makes the spare files of record.h. Adds what it
 * did to `did` (nothing when nothing was left), and to `unfinished` the mkfs and e2fsck that an
 * earlier start has not seen ending. -1: something failed; the rest was tried.
 */
int node_recover(const struct node *n, struct str *did, struct strs *unfinished, struct err *err)
	MUST_CHECK;
