/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that exclude concurrent commands on one host: a lock file and flock(2). A release removes
 * the file; the kernel releases the lock of a process that is killed.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"

struct host_lock {
	int fd; /* -1: not locked */
	char *path;
};

/* The common prefix of the lock names of all `host watch` processes. */
#define HOST_WATCH_LOCK "_watch-"

#define HOST_LOCK_INIT                      \
	{                                   \
		.fd = -1, .path = (void *)0 \
	}
/*
 * Takes the lock <state dir>/locks/<name>; `what` names it in errors. ABORTED: another command held
 * it until the deadline.
 */
int host_lock_take(struct host_lock *l, const char *state_dir, const char *name, const char *what,
                   struct deadline d, struct err *err) MUST_CHECK;
/* Returns true if any process holds a lock whose name has this prefix. */
bool host_lock_is_taken(const char *state_dir, const char *prefix);
void host_lock_release(struct host_lock *l);
DEFINE_AUTO_VALUE(struct host_lock, host_lock_release);
