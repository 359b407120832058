/* SPDX-License-Identifier: Apache-2.0 */
/* See wait.h. Reads the state of threads and processes from /proc. */
#include "test/lib/wait.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

/* How often the thread has gone to sleep; -1: it runs or is ready to run; -2: it has ended. */
static long sleeps_of(pid_t thread)
{
	FILE *f AUTO(fclose) = NULL;
	char path[64], line[256];
	bool sleeps = false;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "State:\tS", 8) == 0)
			sleeps = true;
		else if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
			return sleeps ? strtol(line + 24, NULL, 10) : -1;
	}
	return -2;
}

void wait_until_idle(const _Atomic pid_t *thread)
{
	struct deadline limit = wait_limit();
	long before = -1;

	for (int quiet = 0; quiet < 20;) {
		long now = *thread ? sleeps_of(*thread) : -1;

		if (now == -2)
			return;
		quiet = now >= 0 && now == before ? quiet + 1 : 0;
		before = now;
		ck_assert_msg(wait_a_moment(limit), "thread %d does not come to rest",
		              (int)*thread);
	}
}

bool process_has_ended(pid_t pid)
{
	char path[64], stat[400] = "";
	const char *state;
	int fd AUTO(fd) = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, stat, sizeof(stat) - 1) <= 0)
		return true;
	state = strrchr(stat, ')');
	return !state || strchr("ZX", state[2]);
}
