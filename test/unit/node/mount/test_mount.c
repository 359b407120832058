/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table from recorded files, the flags, and real mounts in a namespace of their own. */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/mount/mount.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"

/* A proc root with this mountinfo; removed by the next call and at the end. */
static const char *proc_with(const char *mountinfo)
{
	static char root[64] = "";
	struct err err = ERR_INIT;
	char *dir AUTO(free) = NULL;
	char *file AUTO(free) = NULL;

	if (*root)
		run_tool("rm -rf %s", root);
	snprintf(root, sizeof(root), "/tmp/mount-test-%d", getpid());
	dir = xasprintf("%s/self", root);
	file = xasprintf("%s/mountinfo", dir);
	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(file_replace(file, mountinfo, strlen(mountinfo), 0644, &err), 0);
	return root;
}

static void remove_proc(void)
{
	run_tool("rm -rf /tmp/mount-test-%d", getpid());
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
	ck_assert_uint_eq(mount_count_at(&t, "/var/lib/kubelet/plugins/blk/vol"), 2);
	ck_assert_int_eq(mount_at(&t, "/var/lib/kubelet/plugins/blk/vol")->id, 51);
	ck_assert_ptr_null(mount_at(&t, "/var/lib/kubelet"));
	ck_assert_int_eq(mount_containing(&t, "/var/lib/kubelet/x")->id, 21);
	ck_assert_int_eq(mount_containing(&t, "/devices")->id, 21);
	ck_assert_int_eq(mount_containing(&t, "/dev/null")->id, 22);
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
	ck_assert(mount_same_place(&t, staged, mirror));
	ck_assert(mount_same_place(&t, mirror, staged));
	ck_assert(!mount_same_place(&t, staged, pod));
	ck_assert(!mount_same_place(&t, mirror, pod));
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
		{ "good then bad", "21 1 254:1 / / rw - ext4 /dev/vda1 rw\n22 21 0:5 / /dev\n",
		  -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
		struct err err = ERR_INIT;
		int rc = mount_table_read(proc_with(rows[i].text), &t, &err);

		ck_assert_msg(rc == rows[i].rc, "%s: %d %s", rows[i].what, rc, err.msg);
	}
	remove_proc();
}
END_TEST

START_TEST(a_missing_table_is_an_error)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	ck_assert_int_eq(mount_table_read("/nonexistent", &t, &err), -1);
	ck_assert_str_eq(err.msg, "read /nonexistent/self/mountinfo: No such file or directory");
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
		int rc = mount_place(path, &got, &err);

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

		ck_assert_msg(mount_place(rows[i], &got, &err) == -1, "%s", rows[i]);
		ck_assert_int_eq(err.code, ERR_INVALID);
	}
}
END_TEST

START_TEST(flags_that_reach_outside_are_refused)
{
	static const struct {
		const char *flag;
		const char *refused; /* the flag that is named, or NULL */
	} rows[] = {
		{ "noatime", NULL },
		{ "noatime,discard", NULL },
		{ "context=\"system_u:object_r:container_file_t:s0:c1,c2\"", NULL },
		{ "nosuid", NULL },
		{ "norecovery", NULL },
		{ "bind", "bind" },
		{ "noatime,loop", "loop" },
		{ "loop=/dev/loop1", "loop=/dev/loop1" },
		{ "offset=4096", "offset=4096" },
		{ "device=/dev/sda", "device=/dev/sda" },
		{ "errors=panic", "errors=panic" },
		{ "errors=remount-ro", NULL },
		{ "X-mount.mkdir", "X-mount.mkdir" },
		{ "x-systemd.automount", NULL },
		{ "context=\"a,b\",remount", "remount" },
		{ "logdev=/dev/sda", "logdev=/dev/sda" },
		{ "rshared", "rshared" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs out AUTO(strs_clear) = STRS_INIT;
		struct err err = ERR_INIT;
		char *want AUTO(free) = xasprintf("mount flag \"%s\" is refused: ",
		                                  rows[i].refused ? rows[i].refused : "");
		int rc = mount_flags_check(&rows[i].flag, 1, &out, &err);

		ck_assert_msg(rc == (rows[i].refused ? -1 : 0), "%s: %s", rows[i].flag, err.msg);
		if (rc)
			ck_assert_msg(str_has_prefix(err.msg, want), "%s: %s", rows[i].flag,
			              err.msg);
	}
}
END_TEST

START_TEST(flags_are_split_at_commas_outside_quotes)
{
	const char *const flags[] = { "a,b", "", "context=\"x,y\",c", "," };
	const char *const open_quote = "context=\"x";
	struct strs out AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	char *joined AUTO(free) = NULL;

	ck_assert_int_eq(mount_flags_check(flags, ARRAY_LEN(flags), &out, &err), 0);
	joined = strs_join(&out, "|");
	ck_assert_str_eq(joined, "a|b|context=\"x,y\"|c");
	ck_assert_int_eq(mount_flags_check(&open_quote, 1, &out, &err), -1);
}
END_TEST

/* ---- the kernel ---- */

START_TEST(bind_read_only_and_unmount)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	char dir[] = "/var/tmp/mount-test-XXXXXX";
	struct err err = ERR_INIT;
	char *a AUTO(free) = NULL, *b AUTO(free) = NULL;
	int rc;

	SKIP_UNLESS_ROOT("mounts");
	private_mounts();
	ck_assert_ptr_nonnull(mkdtemp(dir));
	run_tool("cd %s && mkdir a b && touch a/file && mount -t tmpfs -o nosuid,nodev,noexec x a",
	         dir);
	a = xasprintf("%s/a", dir);
	b = xasprintf("%s/b", dir);
	ck_assert_int_eq(mount_bind(a, b, &err), 0);
	ck_assert_int_eq(mount_set_read_only(b, &err), 0);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert(mount_at(&t, b)->read_only);
	ck_assert(!mount_at(&t, a)->read_only);
	/* A remount that forgot the other flags would have lifted them. */
	ck_assert_str_eq(mount_at(&t, b)->options, "ro,nosuid,nodev,noexec,relatime");
	ck_assert_int_eq(mount_remove(b, false, &err), 0);
	ck_assert_int_eq(mount_remove(b, false, &err), MOUNT_ABSENT);
	/* The same in one step, where the kernel can. */
	rc = mount_bind_read_only(a, b, &err);
	ck_assert_msg(rc == 0 || rc == MOUNT_UNSUPPORTED, "%s", err.msg);
	if (rc == 0) {
		mount_table_clear(&t);
		ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
		ck_assert_str_eq(mount_at(&t, b)->options, "ro,nosuid,nodev,noexec,relatime");
		ck_assert(!mount_at(&t, a)->read_only);
		ck_assert_int_eq(mount_remove(b, false, &err), 0);
	}
	ck_assert_int_eq(mount_remove(a, true, &err), 0);
	run_tool("rm -r %s", dir);
	ck_assert_int_eq(mount_remove(a, false, &err), MOUNT_ABSENT);
}
END_TEST

START_TEST(a_busy_mount_says_so_and_goes_lazily)
{
	char dir[] = "/var/tmp/mount-test-XXXXXX";
	struct err err = ERR_INIT;
	char *file AUTO(free) = NULL;
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_ROOT("mounts");
	private_mounts();
	ck_assert_ptr_nonnull(mkdtemp(dir));
	run_tool("mount -t tmpfs x %s && touch %s/f", dir, dir);
	file = xasprintf("%s/f", dir);
	fd = open(file, O_RDONLY);

	ck_assert_int_eq(mount_remove(dir, false, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(err.sys, EBUSY);
	err_clear(&err);
	ck_assert_int_eq(mount_remove(dir, true, &err), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(unmount_does_not_follow_a_link)
{
	char dir[] = "/var/tmp/mount-test-XXXXXX";
	struct err err = ERR_INIT;
	char *link AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	private_mounts();
	ck_assert_ptr_nonnull(mkdtemp(dir));
	run_tool("cd %s && mkdir a && mount -t tmpfs x a && ln -s a l", dir);
	link = xasprintf("%s/l", dir);

	ck_assert_int_eq(mount_remove(link, false, &err), MOUNT_ABSENT);
	run_tool("cd %s && mountpoint -q a && umount a && rm -r %s", dir, dir);
}
END_TEST

START_TEST(a_filesystem_is_mounted_as_asked_or_not_at_all)
{
	struct nvme_world w;
	struct strs none AUTO(strs_clear) = STRS_INIT, options AUTO(strs_clear) = STRS_INIT;
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	struct nvme_disk *d;
	char *at AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	d = nvme_world_add(&w, 1, "", 16 * 1024 * 1024);
	at = xasprintf("%s/at", w.root);
	run_tool("mkfs.ext4 -q %s && mkdir %s", d->loop, at);

	strs_add(&options, "noatime");
	strs_add(&options, "nosuid");
	ck_assert_int_eq(mount_filesystem(d->node, at, "ext4", &options, &err), 0);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert_uint_eq(mount_at(&t, at)->devno, d->devno);
	ck_assert_str_eq(mount_at(&t, at)->options, "rw,nosuid,noatime");
	ck_assert_int_eq(mount_remove(at, false, &err), 0);

	/* Read-only device: mount(8) would warn and mount it read-only. */
	run_tool("blockdev --setro %s", d->loop);
	ck_assert_int_eq(mount_filesystem(d->node, at, "ext4", &none, &err), -1);
	ck_assert_msg(strstr(err.msg, "write-protected") || strstr(err.msg, "read-only"), "%s",
	              err.msg);
	err_clear(&err);
	ck_assert_int_eq(mount_remove(at, false, &err), MOUNT_ABSENT);

	/* The wrong type, and an option that the filesystem does not know. */
	run_tool("blockdev --setrw %s", d->loop);
	ck_assert_int_eq(mount_filesystem(d->node, at, "xfs", &none, &err), -1);
	ck_assert_msg(strstr(err.msg, "(xfs)") && strstr(err.msg, d->node), "%s", err.msg);
	err_clear(&err);
	strs_add(&none, "nonsense=1");
	ck_assert_int_eq(mount_filesystem(d->node, at, "ext4", &none, &err), -1);
	ck_assert_int_eq(err.code, ERR_INVALID);
	nvme_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("mount", 60, mountinfo_is_read_as_the_kernel_writes_it, mounts_of_a_disk_are_walked,
              one_mount_point_seen_twice_is_one_place,
              a_table_that_cannot_be_understood_is_no_table, a_missing_table_is_an_error,
              a_place_is_named_as_mountinfo_names_it, a_path_that_names_nothing_is_refused,
              flags_that_reach_outside_are_refused, flags_are_split_at_commas_outside_quotes,
              bind_read_only_and_unmount, a_busy_mount_says_so_and_goes_lazily,
              unmount_does_not_follow_a_link, a_filesystem_is_mounted_as_asked_or_not_at_all);
