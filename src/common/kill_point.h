/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places where a test (test/killpoints) can kill the process: `kill_point("stage: mounted")`
 * follows each step that changes something. Only FLAVOUR=kill (-DSNAP_CSI_KILL_POINTS) has them;
 * any other build contains neither the call nor the name.
 *
 *   SNAP_CSI_KILL_AT=NAME[#N]   SIGKILL for the process when NAME is passed for the N-th time (1)
 *   SNAP_CSI_KILL_TRACE=FILE    each name that is passed is appended to the file, one per line
 *   SNAP_CSI_KILL_TOOLS=DIRS    directories (a:b:c) that are searched first for mkfs, e2fsck, ...
 */
#pragma once

/* Any thread. */
void kill_point(const char *name);
/* Returns the value of SNAP_CSI_KILL_TOOLS; NULL if not set. */
const char *kill_point_tools(void);

#ifndef SNAP_CSI_KILL_POINTS
#define kill_point(name) ((void)0)
#define kill_point_tools() NULL
#endif
