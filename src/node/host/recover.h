/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what a killed driver has left on this host and no call would come back for. No state. */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "node/node.h"

/*
 * To be called before the first call is served: only files of the driver's own folder, which later
 * calls write. Removes records that can match no disk any more: of a tool
 * (disk_record_is_outdated(), or half written), and of an unstage (of another boot, or half
 * written). Creates the spare files of state_file.h. Adds its removals to `did`, and to
 * `unfinished` the mkfs and e2fsck that an earlier start did not see end. -1: a step failed; the
 * others were tried.
 */
int node_recover_records(const struct node *n, struct str *did, struct strs *unfinished,
                         struct err *err) MUST_CHECK;
/*
 * The part that may hang, so it runs beside the calls: clears driver_override of each function for
 * volumes, and removes mounts that were made only to look at a share. A function that does not
 * answer for hang_ms (struct device_world) is named in the log and left alone. Logs its changes.
 * Other mounts, bindings and records are left to the calls that will come for them.
 */
void node_recover_host(struct node *n);
