/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table from recorded files, and the names of paths in it. */
#include "test/lib/suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/mount/mountinfo.h"
#include "test/lib/nvme_world.h"

/* A proc root with this mountinfo; removed by the next call and at the end. */
static const char *proc_with(const char *mountinfo)
{
	static char root[64] = "";
	struct err err = ERR_INIT;
	char *dir AUTO(free) = NULL;
	char *file AUTO(free) = NULL;

	if (*root)
		run_tool("rm -rf %s", root);
	snprintf(root, sizeof(root), "/tmp/mountinfo-test-%d", getpid());
	dir = xasprintf("%s/self", root);
	file = xasprintf("%s/mountinfo", dir);
	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(file_replace(file, mountinfo, strlen(mountinfo), 0644, &err), 0);
	return root;
}

static void remove_proc(void)
{
	run_tool("rm -rf /tmp/mountinfo-test-%d", getpid());
}

static const char typical[] =
	"21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
	"22 21 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=4k\n"
	"30 21 254:1 /var/lib/kubelet /data/kubelet rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
	"40 21 259:3 / /var/lib/kubelet/plugins/a\\040b/globalmount rw,relatime shared:9 - xfs "
	"/dev/nvme0n1 rw,nouuid\n"
	"41 30 259:3 / /data/kubelet/plugins/a\\040b/globalmount rw,relatime shared:9 - xfs "
	"/dev/nvme0n1 rw,nouuid\n"
	"42 21 259:3 / /var/lib/kubelet/pods/1/mount ro,relatime shared:9 - xfs /dev/nvme0n1 "
	"rw,nouuid\n"
	"43 21 259:3 /sub /var/lib/kubelet/pods/1/subpath rw,relatime - xfs /dev/nvme0n1 rw\n"
	"50 21 0:5 /nvme1n1 /var/lib/kubelet/plugins/blk/vol rw shared:2 - devtmpfs udev rw\n"
	"51 50 0:5 /nvme1n1 /var/lib/kubelet/plugins/blk/vol rw shared:2 - devtmpfs devtmpfs rw\n"
	"60 21 259:9 / /var/lib/kubelet/pods/2/mount rw - ext4 /dev/nvme9n1 ro,emergency_ro\n";

START_TEST(mountinfo_is_read_as_the_kernel_writes_it)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	const struct mount *m;

	ck_assert_int_eq(mount_table_read(proc_with(typical), &t, &err), 0);
	ck_assert_uint_eq(t.n, 10);
	m = mount_at(&t, "/var/lib/kubelet/plugins/a b/globalmount");
	ck_assert_ptr_nonnull(m);
	ck_assert_uint_eq(m->devno, makedev(259, 3));
	ck_assert_str_eq(m->root, "/");
	ck_assert_str_eq(m->fs_type, "xfs");
	ck_assert_str_eq(m->fs_options, "rw,nouuid");
	ck_assert(!m->read_only);
	ck_assert(mount_at(&t, "/var/lib/kubelet/pods/1/mount")->read_only);
	ck_assert(mount_at(&t, "/var/lib/kubelet/pods/2/mount")->read_only);
	ck_assert_int_eq(mount_at(&t, "/var/lib/kubelet/plugins/blk/vol")->id, 51);
	ck_assert_ptr_null(mount_at(&t, "/var/lib/kubelet"));
	ck_assert_int_eq(mount_containing(&t, "/var/lib/kubelet/x")->id, 21);
	ck_assert_int_eq(mount_containing(&t, "/devices")->id, 21);
	ck_assert_int_eq(mount_containing(&t, "/dev/null")->id, 22);
	remove_proc();
}
END_TEST

START_TEST(words_are_as_they_were_before_the_kernel_escaped_them)
{
	static const char text[] =
		"21 1 0:9 / /a\\040b\\011c\\012d\\134e rw shared:1 master:2 - fuse.x\\043y s "
		"rw,name=a\\040b\n"
		"22 21 0:10 / /odd\\x\\09\\400\\ rw - t  ro,x\n";
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	ck_assert_int_eq(mount_table_read(proc_with(text), &t, &err), 0);
	ck_assert_str_eq(t.v[0].target, "/a b\tc\nd\\e");
	ck_assert_str_eq(t.v[0].fs_type, "fuse.x#y");
	ck_assert_str_eq(t.v[0].fs_options, "rw,name=a b");
	ck_assert(t.v[0].shared && t.v[0].slave && !t.v[0].read_only);
	ck_assert_str_eq(t.v[1].target, "/odd\\x\\09\\400\\");
	ck_assert_str_eq(t.v[1].source, "");
	ck_assert(!t.v[1].shared && !t.v[1].slave && t.v[1].read_only);
	remove_proc();
}
END_TEST

/*
 * Path resolution goes from the root downwards. At each directory it enters the mount there, and
 * after that only mounts within that one.
 */
START_TEST(a_mount_under_a_later_one_is_not_seen)
{
#define TOP "21 1 254:1 / / rw - ext4 /dev/vda1 rw\n"
#define LINE(id, up, target) id " " up " 0:" id " / " target " rw - tmpfs t rw\n"
	static const struct {
		const char *what, *text;
		int at, in; /* ids of mount_at() and mount_containing() for /k/pods/1; 0: none */
		int hidden; /* id of mount_hidden_at() */
	} rows[] = {
		{ "nothing", TOP, 0, 21, 0 },
		{ "plain", TOP LINE("30", "21", "/k/pods/1"), 30, 30, 0 },
		{ "a neighbour", TOP LINE("30", "21", "/k/pods/10"), 0, 21, 0 },
		{ "below a mount", TOP LINE("30", "21", "/k") LINE("31", "30", "/k/pods/1"), 31, 31,
		  0 },
		{ "two layers", TOP LINE("30", "21", "/k/pods/1") LINE("31", "30", "/k/pods/1"), 31,
		  31, 0 },
		{ "a mount over its parent",
		  TOP LINE("30", "21", "/k/pods/1") LINE("31", "21", "/k/pods"), 0, 31, 30 },
		{ "a mount over its parent, in another order",
		  TOP LINE("31", "21", "/k/pods") LINE("30", "21", "/k/pods/1"), 0, 31, 30 },
		{ "a mount over the mount that it is in",
		  TOP LINE("30", "21", "/k") LINE("31", "30", "/k/pods/1") LINE("32", "30", "/k"),
		  0, 32, 31 },
		{ "mounted anew over the cover",
		  TOP LINE("30", "21", "/k/pods/1") LINE("31", "21", "/k/pods")
		          LINE("32", "31", "/k/pods/1"),
		  32, 32, 0 },
		{ "two covers",
		  TOP LINE("30", "21", "/k/pods/1") LINE("31", "21", "/k/pods")
		          LINE("32", "31", "/k/pods"),
		  0, 32, 30 },
		{ "over the root, which nobody sees",
		  TOP LINE("30", "21", "/k/pods/1") LINE("31", "21", "/"), 30, 30, 0 },
		{ "a root that is not a mount", LINE("30", "1", "/k") LINE("31", "30", "/k/pods/1"),
		  31, 31, 0 },
		{ "a root that is its own parent",
		  "21 21 254:1 / / rw - ext4 /dev/vda1 rw\n" LINE("30", "21", "/k/pods/1"), 30, 30,
		  0 },
		{ "parents in a circle",
		  TOP LINE("30", "31", "/k/pods") LINE("31", "30", "/k/pods/1"), 0, 21, 31 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
		struct err err = ERR_INIT;
		const struct mount *at, *in, *hidden;

		ck_assert_int_eq(mount_table_read(proc_with(rows[i].text), &t, &err), 0);
		at = mount_at(&t, "/k/pods/1");
		in = mount_containing(&t, "/k/pods/1");
		hidden = mount_hidden_at(&t, "/k/pods/1");
		ck_assert_msg((at ? at->id : 0) == rows[i].at, "%s: at", rows[i].what);
		ck_assert_msg((in ? in->id : 0) == rows[i].in, "%s: in", rows[i].what);
		ck_assert_msg((hidden ? hidden->id : 0) == rows[i].hidden, "%s: hidden",
		              rows[i].what);
	}
	remove_proc();
}
END_TEST

/* With a scan of all mounts for each of them this would take minutes. */
START_TEST(each_of_many_thousand_mounts_is_found)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct str text AUTO(str_clear) = STR_INIT(16 << 20);
	struct err err = ERR_INIT;
	enum { MANY = 20000 };

	str_add(&text, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
	for (int i = 0; i < MANY; i++)
		str_addf(&text, "%d 20 259:%d / /k/%d/mount rw - ext4 /dev/x rw\n", 100 + i, i, i);
	ck_assert_int_eq(mount_table_read(proc_with(text.ptr), &t, &err), 0);
	for (int i = 0; i < MANY; i++) {
		char target[40];
		const struct mount *m;

		snprintf(target, sizeof(target), "/k/%d/mount", i);
		m = mount_at(&t, target);
		ck_assert_ptr_nonnull(m);
		ck_assert_int_eq(m->id, 100 + i);
	}
	remove_proc();
}
END_TEST

START_TEST(mounts_of_a_disk_are_walked)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	const struct mount *m = NULL;
	unsigned all = 0, whole = 0;

	ck_assert_int_eq(mount_table_read(proc_with(typical), &t, &err), 0);
	while ((m = mount_of(&t, makedev(259, 3), NULL, m)))
		all++;
	while ((m = mount_of(&t, makedev(259, 3), "/", m)))
		whole++;
	ck_assert_uint_eq(all, 4);
	ck_assert_uint_eq(whole, 3);
	remove_proc();
}
END_TEST

START_TEST(one_mount_point_seen_twice_is_one_place)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	const struct mount *staged, *mirror, *pod;

	ck_assert_int_eq(mount_table_read(proc_with(typical), &t, &err), 0);
	staged = mount_at(&t, "/var/lib/kubelet/plugins/a b/globalmount");
	mirror = mount_at(&t, "/data/kubelet/plugins/a b/globalmount");
	pod = mount_at(&t, "/var/lib/kubelet/pods/1/mount");
	ck_assert(mount_same_mountpoint(&t, staged, mirror));
	ck_assert(mount_same_mountpoint(&t, mirror, staged));
	ck_assert(!mount_same_mountpoint(&t, staged, pod));
	ck_assert(!mount_same_mountpoint(&t, mirror, pod));
	remove_proc();
}
END_TEST

START_TEST(a_table_that_cannot_be_understood_is_no_table)
{
	static const struct {
		const char *what, *text;
		int rc;
	} rows[] = {
		{ "empty", "", 0 },
		{ "cut", "21 1 254:1 / / rw,relatime shared:1 - ext4\n", -1 },
		{ "no separator", "21 1 254:1 / /x rw,relatime ext4 /dev/vda1 rw\n", -1 },
		{ "words", "hello world\n", -1 },
		{ "a number that is none", "21 x 254:1 / / rw - ext4 /dev/vda1 rw\n", -1 },
		{ "a device without a colon", "21 1 254 / / rw - ext4 /dev/vda1 rw\n", -1 },
		{ "a target that is no path", "21 1 254:1 / x rw - ext4 /dev/vda1 rw\n", -1 },
		{ "cut in the last word", "21 1 254:1 / / rw - ext4 /dev/vda1 r", -1 },
		{ "no source", "21 1 0:9 / / rw - tmpfs  rw\n", 0 },
		{ "good then bad", "21 1 254:1 / / rw - ext4 /dev/vda1 rw\n22 21 0:5 / /dev\n",
		  -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
		struct err err = ERR_INIT;
		int rc = mount_table_read(proc_with(rows[i].text), &t, &err);

		ck_assert_msg(rc == rows[i].rc, "%s: %d %s", rows[i].what, rc, err.msg);
		ck_assert_msg(!rc || err.code == ERR_INTERNAL, "%s: %s", rows[i].what,
		              err_code_name(err.code));
	}
	remove_proc();
}
END_TEST

START_TEST(one_mount_outlives_its_table)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	const struct mount *m;

	ck_assert_int_eq(mount_table_read(proc_with(typical), &t, &err), 0);
	m = mount_at(&t, "/var/lib/kubelet/plugins/a b/globalmount");
	mount_table_keep(&t, &m);
	ck_assert_uint_eq(t.n, 1);
	ck_assert_ptr_eq(m, t.v);
	ck_assert_str_eq(m->root, "/");
	ck_assert_str_eq(m->target, "/var/lib/kubelet/plugins/a b/globalmount");
	ck_assert_str_eq(m->options, "rw,relatime");
	ck_assert_str_eq(m->fs_type, "xfs");
	ck_assert_str_eq(m->source, "/dev/nvme0n1");
	ck_assert_str_eq(m->fs_options, "rw,nouuid");
	m = NULL;
	mount_table_keep(&t, &m);
	ck_assert_uint_eq(t.n, 0);
	ck_assert_ptr_null(m);
	remove_proc();
}
END_TEST

START_TEST(a_missing_table_is_an_error)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	ck_assert_int_eq(mount_table_read("/nonexistent", &t, &err), -1);
	ck_assert_str_eq(err.msg, "open /nonexistent/self/mountinfo: No such file or directory");
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
}
END_TEST

/* The volume may be mounted: a final code would make kubelet forget it. */
START_TEST(a_table_that_cannot_be_read_now_is_asked_for_again)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct rlimit was, none;
	struct err err = ERR_INIT;
	int rc;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit) { 0, was.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = mount_table_read("/proc", &t, &err);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	ck_assert_int_eq(rc, -1);
	ck_assert_int_eq(err.sys, EMFILE);
	ck_assert_msg(err.code == ERR_UNAVAILABLE, "%s: %s", err_code_name(err.code), err.msg);
}
END_TEST

START_TEST(a_place_is_named_as_mountinfo_names_it)
{
	char dir[] = "/tmp/mount-place-XXXXXX";
	struct err err = ERR_INIT;
	static const struct {
		const char *what, *path, *want; /* below dir; NULL: does not exist */
	} rows[] = {
		{ "plain", "real/x", "real/x" },
		{ "slashes at the end", "real/x//", "real/x" },
		{ "through a link", "link/x", "real/x" },
		{ "a dot", "real/./x", "real/x" },
		{ "the last component is not followed", "link", "link" },
		{ "no directory", "none/x", NULL },
	};

	ck_assert_ptr_nonnull(mkdtemp(dir));
	run_tool("cd %s && mkdir real && ln -s real link", dir);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, rows[i].path);
		char *got AUTO(free) = NULL;
		int rc = mount_resolve_path(path, &got, &err);

		ck_assert_msg(rc == (rows[i].want ? 0 : MOUNT_DIR_ABSENT), "%s: %d %s",
		              rows[i].what, rc, err.msg);
		if (rows[i].want)
			ROW_STR_EQ(rows[i].what, got + strlen(dir) + 1, rows[i].want);
	}
	run_tool("rm -rf %s", dir);
}
END_TEST

START_TEST(a_path_that_names_nothing_is_refused)
{
	static const char *const rows[] = { "/", "", "//", "/tmp/..", "/tmp/.", "." };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *got AUTO(free) = NULL;
		struct err err = ERR_INIT;

		ck_assert_msg(mount_resolve_path(rows[i], &got, &err) == -1, "%s", rows[i]);
		ck_assert_int_eq(err.code, ERR_INVALID);
	}
}
END_TEST

START_TEST(the_kernel_shows_a_filesystem_that_has_stopped_by_a_word)
{
	static const struct {
		const char *point, *fs;
		bool turned, shut_down;
	} rows[] = {
		{ "rw", "rw", false, false },
		{ "ro", "ro", false, false },
		{ "ro", "rw", false, false },
		{ "rw,relatime", "ro,errors=remount-ro", true, false },
		{ "rw", "rw,errors=remount-ro,emergency_ro", true, false },
		{ "rw", "rw,emergency_ro,errors=remount-ro", true, false },
		/* a read-only mount does not count as switched */
		{ "ro", "rw,emergency_ro", false, false },
		{ "rw", "rw,shutdown", false, true },
		{ "rw", "rw,shutdown,errors=continue", false, true },
		{ "rw", "rw,context=shutdown_t", false, false },
		{ "rw", "rw,noshutdown,shutdowns", false, false },
		{ "rw", "rw,not_emergency_ro", false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text AUTO(free) = xasprintf("1 0 259:1 / /m %s - ext4 /dev/x %s\n",
		                                  rows[i].point, rows[i].fs);
		struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
		struct err err = ERR_INIT;

		ck_assert_int_eq(mount_table_read(proc_with(text), &t, &err), 0);
		ck_assert_msg(mount_turned_read_only(&t.v[0]) == rows[i].turned &&
		                      mount_has_shut_down(&t.v[0]) == rows[i].shut_down,
		              "%s", text);
	}
	remove_proc();
}
END_TEST

SUITE("mountinfo", the_kernel_shows_a_filesystem_that_has_stopped_by_a_word,
      words_are_as_they_were_before_the_kernel_escaped_them, a_mount_under_a_later_one_is_not_seen,
      mountinfo_is_read_as_the_kernel_writes_it, each_of_many_thousand_mounts_is_found,
      mounts_of_a_disk_are_walked, one_mount_point_seen_twice_is_one_place,
      a_table_that_cannot_be_understood_is_no_table, one_mount_outlives_its_table,
      a_missing_table_is_an_error, a_table_that_cannot_be_read_now_is_asked_for_again,
      a_place_is_named_as_mountinfo_names_it, a_path_that_names_nothing_is_refused);
