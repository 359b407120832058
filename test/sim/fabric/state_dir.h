/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of --state: used by one snap-sim, able to hold device nodes, empty at the start. */
#pragma once

#include "common/err.h"

struct state_dir {
	char *path;
	int lock_fd;
	int created; /* snap-sim created it, and removes it at the end */
};

/*
 * Creates the directory, locks it, and removes the remains of an earlier snap-sim, including loop
 * devices and daemons. FAILED_PRECONDITION: it is on a nodev mount, used by another snap-sim, or
 * has other files in it.
 */
int state_dir_open(const char *path, struct state_dir *ret, struct err *err) MUST_CHECK;
/* Removes the contents and, if snap-sim created it, the directory. */
void state_dir_close(struct state_dir *s);
/* The path of an image: "<state>/images/<ns>.<volume>", malloc'ed. */
char *state_dir_image(const struct state_dir *s, const char *ns, const char *volume);
