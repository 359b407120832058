/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of --state: ours alone, able to hold device nodes, clean at the start. */
#pragma once

#include "common/err.h"

struct state_dir {
	char *path;
	int lock_fd;
	int created; /* by us: removed at the end */
};

/*
 * Makes and locks the directory and removes what an earlier snap-sim has left there, loop devices
 * included. FAILED_PRECONDITION: on a nodev mount (named), used by another snap-sim, or full of
 * somebody else's files.
 */
int state_dir_open(const char *path, struct state_dir *ret, struct err *err) MUST_CHECK;
/* Removes the contents and, if we made it, the directory. */
void state_dir_close(struct state_dir *s);
/* "<state>/images/<ns>.<volume>", malloc'ed. */
char *state_dir_image(const struct state_dir *s, const char *ns, const char *volume);
