/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtio-fs device for tests: a folder that snap-share serves (the program is in test/lib/share),
 * and the mount helper by which a driver with the filesystem type "snapsim" mounts its tag. Needs
 * root (skip.h). An error here fails the running test.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/cleanup.h"

/* A running snap-share. */
struct share {
	pid_t pid;
	char *mountpoint;
	bool stopped; /* by share_signal() */
};

/*
 * Serves the folder at the mountpoint, which is created, and waits until it is mounted. The daemon
 * ends with the calling thread, even if that is killed.
 */
void share_start(struct share *s, const char *tag, const char *folder, const char *mountpoint);
/*
 * SIGSTOP makes its mounts hang, SIGCONT ends that. After SIGKILL, waits until the daemon has
 * ended.
 */
void share_signal(struct share *s, int number);
/* Ends the daemon in any state, and unmounts its mountpoint. Copies of the mount stay. */
void share_end(struct share *s);
DEFINE_AUTO_VALUE(struct share, share_end);

/*
 * Installs mount.snapsim in /sbin, or drops this program's reference to it; it stays while another
 * suite needs it. Its mounts are those of $SNAP_SIM_TAGS, which mount_helper_tags() sets. The pair
 * fits SUITE_AROUND(); without root nothing is done. Returns 0, or 1 after a text on stderr.
 */
int mount_helper_install(int argc, char **argv);
void mount_helper_remove(void);
/* A tag is mounted at <folder>/<tag>. */
void mount_helper_tags(const char *folder);
