/* SPDX-License-Identifier: Apache-2.0 */
/* A lock of a file that is seen without taking one: that of this kernel, and entries of other kinds. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/holders/flocks.h"

static char dir[64], *path;
static int fd;

static void begin(void)
{
	/* overlayfs shows another device than the list does. */
	snprintf(dir, sizeof(dir), "/dev/shm/test_flocks.%d", (int)getpid());
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	path = xasprintf("%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
}

static void end(void)
{
	char *locks AUTO(free) = xasprintf("%s/locks", dir);

	close(fd);
	unlink(locks);
	unlink(path);
	rmdir(dir);
	free(path);
}

START_TEST(a_lock_of_this_kernel_is_seen_until_it_is_released)
{
	begin();
	ck_assert(!flock_is_held("/proc", path));
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert(flock_is_held("/proc", path));
	ck_assert_int_eq(flock(fd, LOCK_UN), 0);
	ck_assert(!flock_is_held("/proc", path));
	end();
}
END_TEST

static const struct {
	const char *what, *before, *after;
	unsigned other; /* added to the inode */
	bool held;
} entries[] = {
	{ "flock", "1: FLOCK  ADVISORY  WRITE 7 ", " 0 EOF", 0, true },
	{ "the second entry",
	  "1: POSIX  ADVISORY  READ 1 00:01:1 0 EOF\n2: FLOCK  ADVISORY  WRITE 7 ", " 0 EOF\n", 0,
	  true },
	{ "a waiter of another file",
	  "1: FLOCK  ADVISORY  WRITE 7 00:01:1 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 8 ", " 0 EOF\n",
	  1, false },
	{ "fcntl", "1: POSIX  ADVISORY  WRITE 7 ", " 0 EOF\n", 0, false },
	{ "another file", "1: FLOCK  ADVISORY  WRITE 7 ", " 0 EOF\n", 1, false },
	{ "a file whose inode begins with these digits", "1: FLOCK  ADVISORY  WRITE 7 ",
	  "0 0 EOF\n", 0, false },
};

START_TEST(only_a_flock_of_this_file_counts)
{
	char *locks AUTO(free) = NULL, *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct stat st;

	begin();
	ck_assert_int_eq(fstat(fd, &st), 0);
	locks = xasprintf("%s/locks", dir);
	text = xasprintf("%s%02x:%02x:%llu%s", entries[_i].before, major(st.st_dev),
	                 minor(st.st_dev), (unsigned long long)st.st_ino + entries[_i].other,
	                 entries[_i].after);
	ck_assert_int_eq(file_replace(locks, text, strlen(text), 0600, &err), 0);
	ck_assert_msg(flock_is_held(dir, path) == entries[_i].held, "%s", entries[_i].what);
	end();
}
END_TEST

START_TEST(a_lock_that_cannot_be_excluded_is_held)
{
	begin();
	ck_assert(flock_is_held(dir, path));
	ck_assert(!flock_is_held("/proc", "/nowhere/file"));
	end();
}
END_TEST

SUITE("flocks", a_lock_of_this_kernel_is_seen_until_it_is_released,
      LOOP(only_a_flock_of_this_file_counts, ARRAY_LEN(entries)),
      a_lock_that_cannot_be_excluded_is_held);
