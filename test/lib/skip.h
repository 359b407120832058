/* SPDX-License-Identifier: Apache-2.0 */
/* Skips a test that this machine cannot run; run-suites.sh shows the line. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "common/sanitizer.h"

/* First lines of a START_TEST. */
#define SKIP_IF(condition, why)                                    \
	do {                                                       \
		if (condition) {                                   \
			printf("SKIP: %s: %s\n", __func__, (why)); \
			fflush(stdout);                            \
			return;                                    \
		}                                                  \
	} while (0)
/* For tests that count the threads of processes, use clone(2), or need their own user namespace. */
#define SKIP_UNDER_TSAN() SKIP_IF(SANITIZE_THREAD, "ThreadSanitizer has a thread in each process")
#define SKIP_UNLESS_ROOT(why) SKIP_IF(geteuid() != 0, "needs root: " why)
/* Loop devices and mounts. */
#define SKIP_UNLESS_LOOP()                                                       \
	SKIP_IF(geteuid() != 0 || access("/dev/loop-control", R_OK | W_OK) != 0, \
	        "needs root and loop devices")
/* For folders that are served by FUSE (share.h). */
#define SKIP_UNLESS_FUSE()                                               \
	SKIP_IF(geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) != 0, \
	        "needs root and /dev/fuse (modprobe fuse; docker run --device /dev/fuse)")
