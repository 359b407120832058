/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fs_state.h. It handles one frozen filesystem at a time; a separate process thaws it when the
 * test has ended.
 */
#include "test/lib/fs_state.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "test/lib/nvme_world.h"
#include "test/lib/wait.h"

#define SHUT_DOWN _IOR('X', 125, uint32_t) /* EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN */
#define WITHOUT_A_SYNC 2U

const char *const fs_state_names[FS_STATES] = {
	[FS_STATE_FINE] = "fine",
	[FS_STATE_FROZEN] = "frozen",
	[FS_STATE_TURNED_READ_ONLY] = "turned read-only",
	[FS_STATE_SHUT_DOWN] = "shut down",
	[FS_STATE_ERROR] = "with an error",
};

static pid_t guardian;
/* the write end of a pipe to the guardian process; -1: no guardian runs */
static int guardian_fd = -1;

static int open_path(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The image behind the loop device, from sysfs; "" after it was detached. */
static void image_of(const char *loop, char *ret, size_t size)
{
	char path[200];
	ssize_t n;
	int fd AUTO(fd) = -1;

	snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", strrchr(loop, '/') + 1);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, " \n")] = '\0'; /* " (deleted)" */
}

/* If the loop device is still the test's, its filesystem may be frozen without a mount. */
static void thaw_unmounted(const char *loop, const char *image, const char *path)
{
	char command[4096], now[1000];

	image_of(loop, now, sizeof(now));
	if (!*image || strcmp(now, image) != 0)
		return;
	snprintf(command, sizeof(command),
	         "mkdir -p %s; (mount -o ro %s %s || mount %s %s || mount -o nouuid %s %s) && "
	         "fsfreeze -u %s; umount %s",
	         path, loop, path, loop, path, loop, path, path, path);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
}

/*
 * A process that holds no file of the filesystem, and thaws it when the test's process ends without
 * having reported the thaw. A failed test ends by _exit(), and Check kills its process group.
 */
static void guard_thaw_of(const char *loop, const char *path)
{
	struct pollfd told = { .fd = 0, .events = POLLIN };
	pid_t test = getpid();
	char image[1000];
	int ends[2], fd;

	image_of(loop, image, sizeof(image));
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	guardian = fork();
	if (guardian != 0) {
		close(ends[0]);
		guardian_fd = ends[1];
		return;
	}
	setsid();
	dup2(ends[0], 0);
	closefrom(1);
	while (poll(&told, 1, 100) <= 0 && !process_has_ended(test))
		;
	if (told.revents & POLLIN) /* a byte: it is thawed */
		_exit(0);
	fd = open_path(path);
	if (fd < 0 || ioctl(fd, FITHAW, 0) < 0)
		thaw_unmounted(loop, image, path);
	_exit(0);
}

static void freeze(const char *loop, const char *path)
{
	int fd AUTO(fd) = open_path(path);

	guard_thaw_of(loop, path);
	ck_assert_msg(ioctl(fd, FIFREEZE, 0) == 0, "freeze %s: %s", path, strerror(errno));
}

static void shut_down(const char *path)
{
	uint32_t how = WITHOUT_A_SYNC;
	int fd AUTO(fd) = open_path(path);

	ck_assert_msg(ioctl(fd, SHUT_DOWN, &how) == 0, "shut %s down: %s", path, strerror(errno));
}

void fs_state_set(enum fs_state state, const char *fs_type, const char *loop, const char *path)
{
	switch (state) {
	case FS_STATE_FROZEN:
		freeze(loop, path);
		break;
	case FS_STATE_TURNED_READ_ONLY:
		run_tool("mount -i -o remount,ro -t %s %s %s && mount -i -o remount,bind,rw %s",
		         fs_type, loop, path, path);
		break;
	case FS_STATE_SHUT_DOWN:
		shut_down(path);
		break;
	case FS_STATE_ERROR:
		run_tool("echo test > /sys/fs/ext4/$(basename %s)/trigger_fs_error", loop);
		break;
	case FS_STATE_FINE:
	case FS_STATES:
		break;
	}
}

void fs_state_thaw(const char *path, struct guard *g, dev_t devno)
{
	struct err err = ERR_INIT;
	int fd AUTO(fd) = open_path(path);

	ck_assert_msg(ioctl(fd, FITHAW, 0) == 0, "thaw %s: %s", path, strerror(errno));
	ck_assert_int_eq(write(guardian_fd, "x", 1), 1);
	close(guardian_fd);
	guardian_fd = -1;
	/* otherwise it would keep the mount busy */
	ck_assert_int_eq(waitpid(guardian, NULL, 0), guardian);
	for (; g && guard_ask(g, GUARD_WRITE, devno, path, &err); err_clear(&err))
		usleep(1000);
}
