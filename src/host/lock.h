/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks between the commands of one host: a file, and flock(2) on it. The file is removed when the
 * lock is given back, and the kernel gives back that of a process that was killed.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"

struct host_lock {
	int fd; /* -1: not taken */
	char *path;
};

/* The locks of each `host watch` begin so. */
#define HOST_WATCH_LOCK "_watch-"

#define HOST_LOCK_INIT                      \
	{                                   \
		.fd = -1, .path = (void *)0 \
	}
/*
 * <state dir>/locks/<name>; `what` is named in the error. ABORTED: another command had it until the
 * deadline.
 */
int host_lock_take(struct host_lock *l, const char *state_dir, const char *name, const char *what,
                   struct deadline d, struct err *err) MUST_CHECK;
/* Has anybody a lock whose name begins so? */
bool host_lock_is_taken(const char *state_dir, const char *prefix);
void host_lock_release(struct host_lock *l);
DEFINE_AUTO_VALUE(struct host_lock, host_lock_release);
