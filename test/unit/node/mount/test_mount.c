/* SPDX-License-Identifier: Apache-2.0 */
/* Real mounts in a namespace of their own. */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/mount/mount.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"

/* ---- the kernel ---- */

static void open_target(const char *path, struct mount_target *ret)
{
	struct err err = ERR_INIT;

	ck_assert_msg(mount_target_open(path, ret, &err) == 0, "%s", err.msg);
}

static int bind_dir(const char *source, const char *path, struct err *err)
{
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;

	open_target(path, &at);
	return mount_bind(source, &at, err);
}

static int mount_at_dir(const char *device, const char *path, const char *fs_type,
                        const struct strs *options, struct err *err)
{
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;

	open_target(path, &at);
	return mount_filesystem(device, &at, fs_type, options, options->n, err);
}

START_TEST(bind_read_only_and_unmount)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	char dir[] = "/var/tmp/mount-test-XXXXXX";
	struct err err = ERR_INIT;
	char *a AUTO(free) = NULL, *b AUTO(free) = NULL;
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;
	int rc, fd = -1, id = 0;

	SKIP_UNLESS_ROOT("mounts");
	private_mounts();
	ck_assert_ptr_nonnull(mkdtemp(dir));
	run_tool("cd %s && mkdir a b && touch a/file && mount -t tmpfs -o nosuid,nodev,noexec x a",
	         dir);
	a = xasprintf("%s/a", dir);
	b = xasprintf("%s/b", dir);
	ck_assert_int_eq(bind_dir(a, b, &err), 0);
	ck_assert_int_eq(mount_set_read_only(b, &err), 0);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert(mount_at(&t, b)->read_only);
	ck_assert(!mount_at(&t, a)->read_only);
	/* A remount without the other flags would have cleared them. */
	ck_assert_str_eq(mount_at(&t, b)->options, "ro,nosuid,nodev,noexec,relatime");
	ck_assert_int_eq(mount_remove(b, false, &err), 0);
	ck_assert_int_eq(mount_remove(b, false, &err), MOUNT_ABSENT);
	/* The same before the mount is visible, where the kernel can. */
	rc = mount_tree_open(a, true, &fd, &id, &err);
	ck_assert_msg(rc == 0 || rc == MOUNT_UNSUPPORTED, "%s", err.msg);
	if (rc == 0) {
		mount_table_clear(&t);
		ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
		ck_assert_ptr_null(mount_at(&t, b));
		ck_assert_int_eq(mount_at(&t, a)->id, id);
		open_target(b, &at);
		ck_assert_int_eq(mount_tree_put(fd, a, &at, &err), 0);
		close(fd);
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

/* A user's folder: the user replaces a directory of the path to the mount point by a link. */
START_TEST(a_link_that_replaces_a_directory_leads_no_mount_away)
{
	char dir[] = "/var/tmp/mount-test-XXXXXX";
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;
	struct err err = ERR_INIT;
	char *source AUTO(free) = NULL, *point AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	private_mounts();
	ck_assert_ptr_nonnull(mkdtemp(dir));
	run_tool("cd %s && mkdir -p source/file user/folder/point root/point", dir);
	source = xasprintf("%s/source", dir);
	point = xasprintf("%s/user/folder/point", dir);
	open_target(point, &at);
	run_tool("cd %s/user && mv folder moved && ln -s ../root folder", dir);

	ck_assert_int_eq(mount_bind(source, &at, &err), 0);
	run_tool("cd %s && mountpoint -q user/moved/point && ! mountpoint -q root/point", dir);
	mount_target_remove(&at);
	run_tool("cd %s && ! mountpoint -q user/moved/point", dir);
	/* Nor is the link followed later. */
	run_tool("cd %s && mount --bind source root/point", dir);
	ck_assert_int_eq(mount_remove(point, false, &err), -1);
	ck_assert_msg(strstr(err.msg, "its component folder is a symbolic link") != NULL, "%s",
	              err.msg);
	mount_target_clear(&at);
	err_clear(&err);
	ck_assert_int_eq(mount_target_open(point, &at, &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	err_clear(&err);
	run_tool(
		"cd %s && mountpoint -q root/point && umount root/point && rmdir user/moved/point && "
		"ln -s ../../root/point user/moved/point",
		dir);
	free(TAKE(point));
	point = xasprintf("%s/user/moved/point", dir);
	ck_assert_int_eq(mount_target_open(point, &at, &err), -1);
	ck_assert_msg(strstr(err.msg, "replaced by a symbolic link") != NULL, "%s", err.msg);
	run_tool("rm -r %s", dir);
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
	ck_assert_int_eq(mount_at_dir(d->node, at, "ext4", &options, &err), 0);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert_uint_eq(mount_at(&t, at)->devno, d->devno);
	ck_assert_str_eq(mount_at(&t, at)->options, "rw,nosuid,noatime");
	ck_assert_int_eq(mount_remove(at, false, &err), 0);

	/* Read-only device: mount(8) would warn and mount it read-only. */
	run_tool("blockdev --setro %s", d->loop);
	ck_assert_int_eq(mount_at_dir(d->node, at, "ext4", &none, &err), -1);
	ck_assert_msg(strstr(err.msg, "write-protected") || strstr(err.msg, "read-only"), "%s",
	              err.msg);
	err_clear(&err);
	ck_assert_int_eq(mount_remove(at, false, &err), MOUNT_ABSENT);

	/* The wrong type. */
	run_tool("blockdev --setrw %s", d->loop);
	ck_assert_int_eq(mount_at_dir(d->node, at, "xfs", &none, &err), -1);
	ck_assert_msg(strstr(err.msg, "(xfs)") && strstr(err.msg, d->node), "%s", err.msg);
	nvme_world_clear(&w);
}
END_TEST

/* The filesystem has a feature that no kernel has, so options are not the reason. */
START_TEST(a_filesystem_that_the_kernel_cannot_use_blames_no_option_of_the_driver)
{
	struct strs options AUTO(strs_clear) = STRS_INIT;
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;
	char *dir AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct nvme_disk *d;
	struct nvme_world w;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	d = nvme_world_add(&w, 1, "", 16 * 1024 * 1024);
	dir = xasprintf("%s/at", w.root);
	run_tool("mkfs.ext4 -q -O ^metadata_csum %s && mkdir %s && "
	         "printf '\\0\\0\\0\\100' | dd of=%s bs=1 seek=1120 conv=notrunc status=none",
	         d->loop, dir, d->loop);
	open_target(dir, &at);
	strs_add(&options, "noatime");
	strs_add(&options, "errors=remount-ro");
	ck_assert_int_eq(mount_filesystem(d->node, &at, "ext4", &options, (size_t)_i, &err), -1);
	ck_assert_msg(!strstr(err.msg, "remount-ro"), "%s", err.msg);
	ck_assert_int_eq(err.code, _i ? ERR_INVALID : ERR_PRECONDITION);
	ck_assert_msg(strstr(err.msg, _i ? "\"noatime\"" : "dmesg for the unsupported feature") !=
	                      NULL,
	              "%s", err.msg);
	nvme_world_clear(&w);
}
END_TEST

static int refused_with; /* errno of mount(2) */

/* Replaces libc's function, for libmount and the driver. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data)
{
	if (!refused_with)
		return (int)syscall(SYS_mount, source, target, type, flags, data);
	errno = refused_with;
	return -1;
}

static const struct {
	int sys;
	enum err_code code;
	const char *says;
} refusals[] = {
	{ ENOSPC, ERR_EXHAUSTED, "fs.mount-max" },
	{ EEXIST, ERR_UNAVAILABLE, "is a copy" },
	{ ENOENT, ERR_UNAVAILABLE, "is missing" },
	{ ENOMEM, ERR_UNAVAILABLE, "memory" },
};

/* A share is mounted by the same function; binds have their own. */
START_TEST(an_errno_of_mount_is_explained_in_every_kind_of_mount)
{
	char dir[] = "/var/tmp/mount-test-XXXXXX";
	const struct strs none = STRS_INIT;
	struct err errs[3] = { ERR_INIT, ERR_INIT, ERR_INIT };
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;
	char *point AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	private_mounts();
	ck_assert_ptr_nonnull(mkdtemp(dir));
	point = xasprintf("%s/at", dir);
	ck_assert_int_eq(mkdir(point, 0700), 0);
	open_target(point, &at);
	refused_with = refusals[_i].sys;
	ck_assert_int_eq(mount_at_dir("none", point, "tmpfs", &none, &errs[0]), -1);
	ck_assert_int_eq(mount_share("tag", &at, "virtiofs", &none, &errs[1]), -1);
	/* With file descriptors, a bind does not use mount(2). */
	if (bind_dir(dir, point, &errs[2]) == 0)
		errs[2] = errs[0];
	refused_with = 0;
	for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
		ck_assert_int_eq(errs[i].code, refusals[_i].code);
		ck_assert_msg(strstr(errs[i].msg, refusals[_i].says) != NULL, "%zu: %s", i,
		              errs[i].msg);
	}
	IGNORE_RESULT(umount2(point, MNT_DETACH));
	run_tool("rm -r %s", dir);
}
END_TEST

START_TEST(a_refused_option_is_named_with_the_place_where_it_is_corrected)
{
	static const struct {
		const char *what, *options[4], *says;
	} rows[] = {
		{ "one of them is unknown",
		  { "noatime", "nosuid", "nonsense=1", "discard" },
		  "ext4 does not take the mount option \"nonsense=1\" (ext4: Unknown parameter "
		  "'nonsense')" },
		{ "a bad value",
		  { "commit=never" },
		  "ext4 does not take the mount option \"commit=never\" (ext4: Bad value for "
		  "'commit')" },
		{ "each alone is right, together they are not",
		  { "data=journal", "delalloc" },
		  "the kernel rejected this ext4 with the mount options "
		  "\"data=journal,delalloc\"" },
	};
	struct strs options AUTO(strs_clear) = STRS_INIT;
	char *at AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct nvme_disk *d;
	struct nvme_world w;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	d = nvme_world_add(&w, 1, "", 16 * 1024 * 1024);
	at = xasprintf("%s/at", w.root);
	run_tool("mkfs.ext4 -q %s && mkdir %s", d->loop, at);
	for (size_t i = 0; i < ARRAY_LEN(rows[_i].options) && rows[_i].options[i]; i++)
		strs_add(&options, rows[_i].options[i]);
	ck_assert_msg(mount_at_dir(d->node, at, "ext4", &options, &err) == -1, "%s", rows[_i].what);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_msg(strstr(err.msg, rows[_i].says) != NULL, "%s: %s", rows[_i].what, err.msg);
	ck_assert_msg(strstr(err.msg, "mountOptions of the StorageClass") != NULL, "%s", err.msg);
	ck_assert_msg(!strstr(err.msg, "bad superblock"), "%s", err.msg);
	nvme_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("mount", 60, bind_read_only_and_unmount, a_busy_mount_says_so_and_goes_lazily,
              a_link_that_replaces_a_directory_leads_no_mount_away, unmount_does_not_follow_a_link,
              a_filesystem_is_mounted_as_asked_or_not_at_all,
              LOOP(a_filesystem_that_the_kernel_cannot_use_blames_no_option_of_the_driver, 2),
              LOOP(an_errno_of_mount_is_explained_in_every_kind_of_mount, ARRAY_LEN(refusals)),
              LOOP(a_refused_option_is_named_with_the_place_where_it_is_corrected, 3));
