/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount at a path, from recorded mountinfo: the same disk at other mountpoints, and mounts that
 * show no disk.
 */
#include "test/lib/suite.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/target/mountpoint.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"

static char root[64];
static struct mount_table table;

/* A proc root with this mountinfo, in which every %R is a folder of the test; read into `table`. */
static void begin(const char *mountinfo)
{
	struct str text AUTO(str_clear) = STR_INIT(65536);
	struct err err = ERR_INIT;
	char *file AUTO(free) = NULL;

	snprintf(root, sizeof(root), "/tmp/mountpoint-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	for (const char *p = mountinfo; *p; p++)
		if (p[0] == '%' && p[1] == 'R')
			str_add(&text, root), p++;
		else
			str_addn(&text, p, 1);
	run_tool("mkdir -p %s/self %s/staging %s/pod %s/other", root, root, root, root);
	file = xasprintf("%s/self/mountinfo", root);
	ck_assert_int_eq(file_replace(file, text.ptr, text.len, 0644, &err), 0);
	ck_assert_msg(mount_table_read(root, &table, &err) == 0, "%s", err.msg);
}

static void end(void)
{
	mount_table_clear(&table);
	run_tool("rm -rf %s", root);
}

static struct mountpoint look(const char *name)
{
	char *path AUTO(free) = xasprintf("%s/%s", root, name);
	struct mountpoint p = MOUNTPOINT_INIT;
	struct err err = ERR_INIT;

	ck_assert_msg(mountpoint_read(&table, path, &p, &err) == 0, "%s", err.msg);
	return p;
}

START_TEST(kinds_are_told_from_mountinfo)
{
	const struct {
		const char *what, *line;
		enum mountpoint_kind kind;
		dev_t disk;
	} rows[] = {
		{ "nothing", "", MOUNTPOINT_NONE, 0 },
		{ "a filesystem of a disk", "40 1 259:3 / %R/staging rw - ext4 /dev/nvme0n1 rw\n",
		  MOUNTPOINT_FILESYSTEM, makedev(259, 3) },
		{ "the topmost counts",
		  "40 1 259:3 / %R/staging rw - ext4 /dev/nvme0n1 rw\n"
		  "41 40 259:4 / %R/staging rw - ext4 /dev/nvme1n1 rw\n",
		  MOUNTPOINT_FILESYSTEM, makedev(259, 4) },
		{ "a subdirectory of one", "40 1 259:3 /sub %R/staging rw - ext4 /dev/nvme0n1 rw\n",
		  MOUNTPOINT_OTHER, 0 },
		{ "tmpfs", "40 1 0:40 / %R/staging rw - tmpfs tmpfs rw\n", MOUNTPOINT_OTHER, 0 },
		{ "nfs", "40 1 0:41 / %R/staging rw - nfs4 host:/x rw\n", MOUNTPOINT_OTHER, 0 },
		{ "btrfs of a node that has gone",
		  "40 1 0:42 / %R/staging rw - btrfs /dev/gone rw\n", MOUNTPOINT_FILESYSTEM,
		  makedev(0, 42) },
		{ "btrfs of something that is no disk",
		  "40 1 0:42 / %R/staging rw - btrfs /dev/null rw\n", MOUNTPOINT_OTHER, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mountpoint p;

		begin(rows[i].line);
		p = look("staging");

		ck_assert_msg(p.kind == rows[i].kind, "%s: %d", rows[i].what, p.kind);
		if (rows[i].kind == MOUNTPOINT_FILESYSTEM)
			ck_assert_msg(p.disk == rows[i].disk, "%s", rows[i].what);
		mountpoint_clear(&p);
		end();
	}
}
END_TEST

/* If it counted as "other" or as "none", it would be unmounted without a check for writers. */
START_TEST(a_look_that_fails_is_no_answer)
{
	static const struct {
		const char *what, *line;
	} rows[] = {
		{ "a bound node", "40 1 0:5 /x %R/staging/vol rw - devtmpfs udev rw\n" },
		{ "a bound node that was removed",
		  "40 1 0:5 /x//deleted %R/staging/vol rw - devtmpfs udev rw\n" },
		{ "the node of a btrfs",
		  "40 1 0:42 / %R/staging/vol rw - btrfs /dev/null/sda rw\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *staging AUTO(free) = NULL;
		struct mountpoint p = MOUNTPOINT_INIT;
		struct err err = ERR_INIT;

		begin(rows[i].line);
		staging = xasprintf("%s/staging", root);
		ck_assert_msg(mountpoint_read_staged(&table, staging, "vol", &p, &err) == -1,
		              "%s: %d", rows[i].what, p.kind);
		ck_assert_msg(err.code == ERR_UNAVAILABLE && !p.path, "%s: %s", rows[i].what,
		              err.msg);
		end();
	}
}
END_TEST

/* Only their inodes show whether two removed nodes of one name are the same node. */
START_TEST(a_node_that_cannot_be_looked_at_may_be_the_same)
{
	struct mountpoint p = { .kind = MOUNTPOINT_BLOCK };

	begin("40 1 0:5 /x//deleted %R/staging rw - devtmpfs udev rw\n"
	      "41 1 0:5 /x//deleted %R/missing rw - devtmpfs udev rw\n"
	      "42 1 0:5 /x//deleted %R/other rw - devtmpfs udev rw\n");
	p.path = xasprintf("%s/staging", root);
	p.m = mount_at(&table, p.path);
	ck_assert_int_eq(mountpoint_elsewhere(&table, &p, NULL, false, NULL)->id, 41);
	ck_assert_ptr_null(mountpoint_elsewhere(&table, &p, NULL, false, &table.v[1]));
	mountpoint_clear(&p);
	end();
}
END_TEST

START_TEST(use_elsewhere_is_found_and_mirrors_are_not_use)
{
	struct mountpoint staging, pod;
	const struct mount *m;

	begin("20 1 254:1 / / rw - ext4 /dev/vda rw\n"
	      "21 20 254:1 %R/staging-parent %R/mirror rw shared:1 - ext4 /dev/vda rw\n"
	      "40 20 259:3 / %R/staging rw - ext4 /dev/nvme0n1 rw\n"
	      "41 20 259:3 / %R/pod rw - ext4 /dev/nvme0n1 rw\n"
	      "42 20 259:3 /sub %R/other rw - ext4 /dev/nvme0n1 rw\n"
	      "43 20 259:9 / %R/unrelated rw - ext4 /dev/nvme9n1 rw\n");
	staging = look("staging");
	pod = look("pod");
	m = mountpoint_elsewhere(&table, &staging, NULL, false, NULL);

	ck_assert_int_eq(m->id, 41);
	m = mountpoint_elsewhere(&table, &staging, NULL, false, m);
	ck_assert_int_eq(m->id, 42);
	ck_assert_ptr_null(mountpoint_elsewhere(&table, &staging, NULL, false, m));
	/* For "one pod only": whole filesystems, but not the pod's own target. */
	ck_assert_ptr_null(mountpoint_elsewhere(&table, &staging, &pod, true, NULL));
	mountpoint_clear(&staging);
	mountpoint_clear(&pod);
	end();
}
END_TEST

START_TEST(the_staged_form_is_the_filesystem_or_the_file)
{
	char *staging AUTO(free) = NULL, *again AUTO(free) = NULL;
	struct mountpoint p = MOUNTPOINT_INIT;
	struct err err = ERR_INIT;

	begin("40 1 259:3 / %R/staging rw - ext4 /dev/nvme0n1 rw\n");
	staging = xasprintf("%s/staging", root);
	ck_assert_int_eq(mountpoint_read_staged(&table, staging, "vol", &p, &err), 0);
	ck_assert_int_eq(p.kind, MOUNTPOINT_FILESYSTEM);
	mountpoint_clear(&p);
	end();

	begin("40 1 0:5 /x %R/staging/vol rw - devtmpfs udev rw\n");
	again = xasprintf("%s/staging", root);
	run_tool("touch %s/vol", again);
	ck_assert_int_eq(mountpoint_read_staged(&table, again, "vol", &p, &err), 0);
	ck_assert_int_eq(p.kind,
	                 MOUNTPOINT_OTHER); /* no device node there: this test needs no root */
	ck_assert(str_has_suffix(p.path, "/staging/vol"));
	mountpoint_clear(&p);
	ck_assert_int_eq(mountpoint_read_staged(&table, again, "other", &p, &err), 0);
	ck_assert_int_eq(p.kind, MOUNTPOINT_NONE);
	mountpoint_clear(&p);
	end();
}
END_TEST

/* In a mount namespace of a new user namespace, where mounts of the old one are locked. */
static int unmount_as_guest(const char *path)
{
	struct mountpoint p = { .kind = MOUNTPOINT_OTHER, .path = (char *)path };
	struct err err = ERR_INIT;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return 2;
	if (mountpoint_unmount(&p, "/proc", false, &err) == 0)
		return 3;
	return err.code == ERR_PRECONDITION && strstr(err.msg, "has locked the mount") ? 0 : 4;
}

START_TEST(a_mount_that_the_kernel_locked_is_refused_and_not_tried_again)
{
	char *path AUTO(free) = NULL;
	int status = 0;
	pid_t pid;

	SKIP_UNLESS_ROOT("mounts");
	private_mounts();
	begin("");
	path = xasprintf("%s/pod", root);
	run_tool("mount -t tmpfs locked %s", path);
	pid = fork();
	if (pid == 0)
		_exit(unmount_as_guest(path));
	waitpid(pid, &status, 0);
	run_tool("umount %s", path);
	end();
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		printf("SKIP: %s: no user namespaces to be had\n", __func__);
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

SUITE("mountpoint", a_mount_that_the_kernel_locked_is_refused_and_not_tried_again,
      kinds_are_told_from_mountinfo, a_look_that_fails_is_no_answer,
      a_node_that_cannot_be_looked_at_may_be_the_same,
      use_elsewhere_is_found_and_mirrors_are_not_use,
      the_staged_form_is_the_filesystem_or_the_file);
