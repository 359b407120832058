/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills the process at the point that a test requests; empty in every build except FLAVOUR=kill.
 * Owns one counter. Uses SIGKILL, after which no handler, no buffer and no other thread can act.
 */
#include "common/kill_point.h"

#ifdef SNAP_CSI_KILL_POINTS
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

static _Atomic unsigned long passed; /* how often the chosen point was passed */

static void trace(const char *name)
{
	const char *path = getenv("SNAP_CSI_KILL_TRACE");
	char line[100];
	size_t n = strnlen(name, sizeof(line) - 1);
	int fd AUTO(fd) = -1;

	if (!path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	memcpy(line, name, n);
	line[n++] = '\n';
	/* If the trace lacks a line, the test fails. */
	IGNORE_RESULT(write(fd, line, n));
}

void kill_point(const char *name)
{
	const char *at = getenv("SNAP_CSI_KILL_AT");
	size_t n = strlen(name);
	unsigned long nth = 1;

	trace(name);
	if (!at || strncmp(at, name, n) != 0 || (at[n] && at[n] != '#'))
		return;
	if (at[n] == '#')
		nth = strtoul(at + n + 1, NULL, 10);
	if (++passed == nth)
		kill(getpid(), SIGKILL);
}

const char *kill_point_tools(void)
{
	return getenv("SNAP_CSI_KILL_TOOLS");
}
#endif
