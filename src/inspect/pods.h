/* SPDX-License-Identifier: Apache-2.0 */
/* Which published volumes have no pod any more, as far as this host can tell. */
#pragma once

#include "inspect/inspect.h"

/*
 * Finds what is published to a pod of which no process runs, not even its sandbox, in the tree's
 * volumes[].node.published. What is published for less than five minutes may be waiting for its
 * pod's start. Says nothing where the host's processes are not to be seen.
 */
void inspect_find_podless(struct inspect_report *r, const char *proc_root);
