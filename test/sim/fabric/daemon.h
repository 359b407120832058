/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that serves a folder as a virtio-fs device: snap-share (test/lib/share), one process
 * for each device. It outlives a killed snap-sim, so its pid is in a file. No state; callers hold
 * fabric->lock.
 */
#pragma once

#include <sys/types.h>

#include "common/err.h"

struct daemon {
	pid_t pid; /* 0: none runs */
	char *at;  /* its mountpoint, "<state>/<node>/tags/<tag>"; NULL: it was never started */
	char *pid_file; /* "<state>/<node>/daemons/<tag>" */
};

/*
 * Serves `folder` under the tag, in the tree of the node's root, and returns once it is mounted.
 * NOT_FOUND: there is no snap-share next to this program.
 */
int daemon_start(struct daemon *d, const char *root, const char *tag, const char *folder,
                 struct err *err) MUST_CHECK;
/*
 * SIGSTOP, SIGCONT or SIGKILL; after SIGKILL its mount exists but is dead. FAILED_PRECONDITION:
 * none runs.
 */
int daemon_signal(struct daemon *d, int number, struct err *err) MUST_CHECK;
/* Ends it in any state, and removes its mountpoint. Copies of its mount are dead then. */
void daemon_end(struct daemon *d);
/* Ends the daemons that a killed snap-sim has left below its state directory. */
void daemon_tidy(const char *state);
