/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places where the process can be made to die, for tests (test/killpoints): `kill_point("stage:
 * mounted")` stands behind each step that changes something. Only a build with
 * -DSNAP_CSI_KILL_POINTS (FLAVOUR=kill) has them; in any other they are nothing, not even the name.
 *
 *   SNAP_CSI_KILL_AT=NAME[#N]   SIGKILL for the whole process when NAME is passed for the N-th time
 *   SNAP_CSI_KILL_TRACE=FILE    each name that is passed is added to the file, a line each
 *   SNAP_CSI_KILL_TOOLS=DIRS    where mkfs, e2fsck and the like are looked for first (a:b:c)
 */
#pragma once

/* Any thread. */
void kill_point(const char *name);
/* NULL: nowhere before the usual places. */
const char *kill_point_tools(void);

#ifndef SNAP_CSI_KILL_POINTS
#define kill_point(name) ((void)0)
#define kill_point_tools() NULL
#endif
