/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a device and verifies that it is the one described by sysfs. Needs loop devices and root.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "node/device/device.h"
#include "test/lib/loop.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

#define MIB (UINT64_C(1) << 20)

struct open_world {
	struct tree tree;
	struct loop loop;
	struct device dev; /* describes the loop device truthfully */
};

static void open_world_clear_p(struct open_world *f)
{
	loop_detach(&f->loop);
	tree_clear(&f->tree);
}

static void open_world_init(struct open_world *f)
{
	tree_unpack(&f->tree, NULL);
	loop_attach(&f->loop, &f->tree, 16 * MIB);
	loop_node(&f->loop, &f->tree, "nvme0n1");
	f->dev = (struct device) { .name = "nvme0n1",
		                   .devno = f->loop.devno,
		                   .size = f->loop.size,
		                   .diskseq = f->loop.diskseq };
	snprintf(f->dev.path, sizeof(f->dev.path), "%s/nvme0n1", f->tree.dev);
}

static void refused(const struct open_world *f, int flags, enum err_code code, const char *says)
{
	struct err err = ERR_INIT;
	int fd = 77;

	ck_assert_int_eq(device_open(&f->dev, flags, &fd, NULL, &err), -1);
	ck_assert_msg(strstr(err.msg, says) && err.code == code, "want \"%s\", got %s %s", says,
	              err_code_name(err.code), err.msg);
	ck_assert_int_eq(fd, 77);
}

START_TEST(the_right_device_is_opened)
{
	struct open_world f AUTO(open_world_clear) = { .loop = { .fd = -1 } };
	int fd AUTO(fd) = -1;
	struct err err = ERR_INIT;
	uint64_t seq = 0;

	SKIP_UNLESS_LOOP();
	open_world_init(&f);
	ck_assert_msg(device_open(&f.dev, O_RDONLY, &fd, &seq, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(seq, f.loop.diskseq);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	close(TAKE_FD(fd));
	/* A kernel or a tree without disk numbers. */
	f.dev.diskseq = 0;
	ck_assert_int_eq(device_open(&f.dev, O_RDONLY | O_EXCL, &fd, NULL, &err), 0);
}
END_TEST

START_TEST(anything_else_is_refused)
{
	struct open_world f AUTO(open_world_clear) = { .loop = { .fd = -1 } };
	struct device good;
	char other[32];

	SKIP_UNLESS_LOOP();
	open_world_init(&f);
	good = f.dev;
	f.dev.size += 512;
	refused(&f, O_RDONLY, ERR_PRECONDITION, "has 16.0 MiB (16777216 bytes) (expected");
	f.dev = good;
	f.dev.devno = makedev(major(good.devno), minor(good.devno) + 1);
	snprintf(other, sizeof(other), "in sysfs nvme0n1 is %u:%u", major(f.dev.devno),
	         minor(f.dev.devno));
	refused(&f, O_RDONLY, ERR_PRECONDITION, other);
	f.dev = good;
	if (good.diskseq) {
		f.dev.diskseq++;
		refused(&f, O_RDONLY, ERR_PRECONDITION, "the name now belongs to another disk");
	}
	f.dev = good;
	snprintf(f.dev.path, sizeof(f.dev.path), "%s/nvme9n9", f.tree.dev);
	refused(&f, O_RDONLY, ERR_UNAVAILABLE, "the driver's pod needs the host's /dev");
}
END_TEST

START_TEST(only_block_device_nodes_are_opened)
{
	struct tree t AUTO(tree_clear) = { 0 };
	struct open_world f = { 0 };
	char path[300];

	tree_unpack(&t, NULL);
	tree_write(&t, "/dev/file", "data");
	tree_link(&t, "/dev/link", "/dev/null");
	snprintf(path, sizeof(path), "%s/fifo", t.dev);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	/* Opening the FIFO would hang. */
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = { "file", "link", "fifo" };

		snprintf(f.dev.path, sizeof(f.dev.path), "%s/%s", t.dev, names[i]);
		refused(&f, O_RDONLY, ERR_PRECONDITION, "is not a block device node");
	}
}
END_TEST

START_TEST(a_character_device_is_known_by_its_node)
{
	struct tree t AUTO(tree_clear) = { 0 };
	static const struct {
		char name[8];
		unsigned minor;
		const char *says; /* NULL: accepted */
	} rows[] = {
		{ "null", 3, NULL },
		{ "null", 5, "is not the node of character device 1:5, which ng0n1 is in sysfs" },
		{ "disk", 3, "is not the node of character device" },
		{ "file", 3, "is not the node of character device" },
		{ "link", 3, "is not the node of character device" },
		{ "none", 3, "the driver's pod needs the host's /dev" },
	};

	SKIP_UNLESS_ROOT();
	tree_unpack(&t, NULL);
	tree_write(&t, "/dev/file", "data");
	tree_link(&t, "/dev/link", "null");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct device d = { .name = "ng0n1", .devno = makedev(1, rows[i].minor) };
		struct err err = ERR_INIT;
		bool disk = str_eq(rows[i].name, "disk");
		int rc;

		snprintf(d.path, sizeof(d.path), "%s/%s", t.dev, rows[i].name);
		if (i == 0 || disk)
			ck_assert_int_eq(
				mknod(d.path, (disk ? S_IFBLK : S_IFCHR) | 0600, makedev(1, 3)), 0);
		rc = device_check_character(&d, &err);
		ck_assert_msg(rc == (rows[i].says ? -1 : 0), "%s: %s", rows[i].name, err.msg);
		ck_assert_msg(!rc || strstr(err.msg, rows[i].says), "%s: %s", rows[i].name,
		              err.msg);
	}
}
END_TEST

START_TEST(a_device_in_use_is_not_opened_exclusively)
{
	struct open_world f AUTO(open_world_clear) = { .loop = { .fd = -1 } };
	int first AUTO(fd) = -1;
	int plain AUTO(fd) = -1;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	open_world_init(&f);
	ck_assert_int_eq(device_open(&f.dev, O_RDONLY | O_EXCL, &first, NULL, &err), 0);
	refused(&f, O_RDONLY | O_EXCL, ERR_PRECONDITION, "is in use: mounted, or part of");
	ck_assert_int_eq(device_open(&f.dev, O_RDONLY, &plain, NULL, &err), 0);
}
END_TEST

static void *leave_soon(void *arg)
{
	usleep(100000);
	close(*(int *)arg);
	return NULL;
}

START_TEST(who_holds_a_device_for_a_moment_does_not_use_it)
{
	struct open_world f AUTO(open_world_clear) = { .loop = { .fd = -1 } };
	struct err err = ERR_INIT;
	pthread_t thread;
	int holder;

	SKIP_UNLESS_LOOP();
	open_world_init(&f);
	ck_assert_int_eq(device_open(&f.dev, O_RDONLY | O_EXCL, &holder, NULL, &err), 0);
	ck_assert_int_eq(device_check_unused(&f.dev, &err), -1);
	ck_assert_msg(strstr(err.msg, "is in use: mounted") && err.code == ERR_PRECONDITION, "%s",
	              err.msg);
	err_clear(&err);
	ck_assert_int_eq(pthread_create(&thread, NULL, leave_soon, &holder), 0);
	ck_assert_msg(device_check_unused(&f.dev, &err) == 0, "%s", err.msg);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(a_nodev_mount_is_named)
{
	struct open_world f AUTO(open_world_clear) = { .loop = { .fd = -1 } };
	char says[700];

	SKIP_UNLESS_LOOP();
	/* Only this test's process sees the mount, which ends with the process. */
	SKIP_IF(unshare(CLONE_NEWNS) != 0, "needs a mount namespace of its own");
	open_world_init(&f);
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount(f.tree.dev, f.tree.dev, NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(mount(NULL, f.tree.dev, NULL, MS_REMOUNT | MS_BIND | MS_NODEV, NULL), 0);
	snprintf(says, sizeof(says),
	         "mounted nodev, so device nodes on it cannot be opened: findmnt -T %s",
	         f.dev.path);
	refused(&f, O_RDONLY, ERR_PRECONDITION, says);
	ck_assert_int_eq(umount(f.tree.dev), 0);
}
END_TEST

SUITE("device_open", the_right_device_is_opened, anything_else_is_refused,
      only_block_device_nodes_are_opened, a_character_device_is_known_by_its_node,
      a_device_in_use_is_not_opened_exclusively, who_holds_a_device_for_a_moment_does_not_use_it,
      a_nodev_mount_is_named);
