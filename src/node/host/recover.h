/* SPDX-License-Identifier: Apache-2.0 */
/* Removes leftovers of a killed driver on this host that no later call would remove. No state. */
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "node/node.h"

/*
 * To be called before the first call is served. Accesses only the driver's own directory, to which
 * later calls write. Removes records that cannot match a disk any more: those of tools that are
 * outdated (disk_record_is_outdated()) or incomplete, and those of unstages that are from another
 * boot or incomplete. Creates the spare files of state_file.h. Adds its removals to `did`, and to
 * `unfinished` the mkfs and e2fsck that were still running when their driver ended. -1: a step
 * failed, and the others were tried; or the driver's directory can be neither read nor written, and
 * nothing was tried.
 */
int node_recover_records(const struct node *n, struct str *did, struct strs *unfinished,
                         struct err *err) MUST_CHECK;
/*
 * Performs the steps that may hang, so it runs concurrently with RPC calls: clears driver_override
 * of each function for volumes, and removes mounts that were made only to probe a share. A function
 * that does not answer within hang_ms (struct device_world) is logged and skipped. Logs its
 * changes. Other mounts, bindings and records are left to the calls that handle them.
 */
void node_recover_host(struct node *n);
