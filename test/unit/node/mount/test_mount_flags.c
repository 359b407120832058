/* SPDX-License-Identifier: Apache-2.0 */
/* The list of mount flags, and its comparison with the running kernel. */
#include "test/lib/suite.h"

#include <string.h>

#include "common/mem.h"
#include "node/mount/mount.h"
#include "node/mount/mount_flags.h"
#include "test/lib/doc_table.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

static struct nvme_world w;

START_TEST(what_is_not_on_the_list_of_its_filesystem_is_refused)
{
	static const struct {
		const char *fs_type, *flag;
		const char *text; /* of the refusal, or NULL */
	} rows[] = {
		{ "ext4", "noatime", NULL },
		{ "xfs", "noatime,discard", NULL },
		{ "ext4", "context=\"system_u:object_r:container_file_t:s0:c1,c2\"", NULL },
		{ "xfs", "rootcontext=system_u:object_r:container_file_t:s0,ro", NULL },
		{ "btrfs", "nosuid,x-systemd.automount,_netdev", NULL },
		{ "xfs", "norecovery", NULL },
		{ "ext4", "errors=remount-ro", NULL },
		{ "ext3", "errors=continue,data=journal,commit=30", NULL },
		{ "ext3", "usrjquota=aquota.user,jqfmt=vfsv1", NULL },
		{ "btrfs", "compress-force=zstd:3,space_cache=v2", NULL },
		{ "", "nouuid", NULL },
		{ "", "data=ordered", NULL },
		{ "ext4", "bind", "mount flag \"bind\" is refused: " },
		{ "ext4", "noatime,loop", "mount flag \"loop\" is refused: " },
		{ "ext4", "loop=/dev/loop1", "mount flag \"loop=/dev/loop1\" is refused: " },
		{ "ext4", "offset=4096", "mount flag \"offset=4096\" is refused: " },
		{ "btrfs", "device=/dev/sda", "another device" },
		{ "ext4", "journal_path=/dev/sda", "another device" },
		{ "ext4", "errors=panic", "stop the whole host" },
		{ "btrfs", "fatal_errors=panic", "stop the whole host" },
		{ "", "errors=panic", "stop the whole host" },
		{ "ext4", "abort", "fail at once" },
		{ "btrfs", "subvol=a", "subPath" },
		{ "btrfs", "subvolid=5", "subPath" },
		{ "ext4", "X-mount.mkdir", "mount(8)" },
		{ "ext4", "user", "mount(8)" },
		{ "xfs", "logdev=/dev/sda", "another device" },
		{ "ext4", "rshared", "propagate" },
		/* Flags of another filesystem, or of none. */
		{ "ext4", "nouuid", "not an option for ext4" },
		{ "xfs", "errors=remount-ro", "not an option for xfs" },
		{ "xfs", "data=ordered", "not an option for xfs" },
		{ "ext4", "data=order", "not an option for ext4" },
		{ "ext4", "noatim", "not an option for ext4 (docs/reference/parameters.md, " },
		{ "ext4", "noatimes", "correct mountOptions in the StorageClass" },
		{ "", "no-such-option", "not an option for any filesystem of this driver" },
		{ "zfs", "noatime", "not an option for zfs" },
		{ "ext4", "test_dummy_encryption", "not an option" },
		/* Quotes and other characters. */
		{ "ext4", "usrjquota=\"a,errors=panic\"", "quotes" },
		{ "ext4", "usrjquota=\"a,jqfmt=vfsv1,errors=panic,grpjquota=b\"", "quotes" },
		{ "ext4", "\"noatime\"", "quotes" },
		{ "ext4", "context=a\"b,errors=panic\"", "quotes" },
		{ "ext4", "context=\"a\"\"b,errors=panic\"", "quote is not closed" },
		{ "ext4", "context=\"a\"b", "quote is not closed" },
		{ "ext4", "context=\"a", "quote is not closed" },
		{ "ext4", "context=\"a,b\",remount", "mount flag \"remount\" is refused: " },
		{ "ext4", "commit=5 errors", "letters, digits" },
		{ "ext4", "commit=5\\054x", "letters, digits" },
		{ "ext4", "commit=5\n", "letters, digits" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs out AUTO(strs_clear) = STRS_INIT;
		struct err err = ERR_INIT;
		int rc = mount_flags_check(&rows[i].flag, 1, rows[i].fs_type, &out, &err);

		ck_assert_msg(rc == (rows[i].text ? -1 : 0), "%s: %s: %s", rows[i].fs_type,
		              rows[i].flag, rc ? err.msg : "is accepted");
		ck_assert_msg(!rc || strstr(err.msg, rows[i].text), "%s: %s", rows[i].flag,
		              err.msg);
		ck_assert_msg(!rc || err.code == ERR_INVALID, "%s: %s", rows[i].flag, err.msg);
	}
}
END_TEST

START_TEST(flags_are_split_at_commas_outside_a_context)
{
	const char *const flags[] = { "ro,sync", "", "context=\"x,y\",exec", "," };
	struct strs out AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	char *joined AUTO(free) = NULL;

	ck_assert_msg(!mount_flags_check(flags, ARRAY_LEN(flags), "xfs", &out, &err), "%s",
	              err.msg);
	joined = strs_join(&out, "|");
	ck_assert_str_eq(joined, "ro|sync|context=\"x,y\"|exec");
}
END_TEST

START_TEST(flags_of_an_unknown_filesystem_are_checked_once_it_is_known)
{
	const char *const flag = "nouuid";
	struct strs out AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	ck_assert_msg(!mount_flags_check(&flag, 1, "", &out, &err), "%s", err.msg);
	ck_assert_msg(!mount_flags_check_for(&out, "xfs", &err), "%s", err.msg);
	ck_assert_int_eq(mount_flags_check_for(&out, "ext4", &err), -1);
	ck_assert_int_eq(err.code, ERR_INVALID);
}
END_TEST

START_TEST(each_filesystem_gets_the_flags_that_protect_the_host)
{
	static const struct {
		const char *fs_type, *flag, *all;
	} rows[] = {
		{ "ext4", "noatime", "noatime,errors=remount-ro" },
		{ "ext3", "noatime", "noatime,errors=remount-ro" },
		{ "ext4", "errors=continue", "errors=continue" },
		{ "xfs", "noatime", "noatime" },
		{ "btrfs", "noatime", "noatime,subvolid=5" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs flags AUTO(strs_clear) = STRS_INIT;
		char *joined AUTO(free) = NULL;

		strs_add(&flags, rows[i].flag);
		mount_flags_add_safe(rows[i].fs_type, &flags);
		joined = strs_join(&flags, ",");
		ck_assert_str_eq(joined, rows[i].all);
	}
}
END_TEST

START_TEST(the_document_has_the_list)
{
	static const struct {
		const char *fs_type, *title;
	} rows[] = {
		{ "", "all" },        { "ext4", "ext4, ext3" },    { "xfs", "xfs" },
		{ "btrfs", "btrfs" }, { "virtiofs", "virtio-fs" },
	};
	struct str table AUTO(str_clear) = STR_INIT(1 << 16);

	str_add(&table, "| filesystem | mount options |\n| --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *at = mount_flags_listed(rows[i].fs_type);

		str_addf(&table, "| %s |", rows[i].title);
		while (*at) {
			int n = (int)strcspn(at, " ");

			str_addf(&table, " `%.*s`", n, at);
			at += n + (at[n] == ' ');
		}
		str_add(&table, " |\n");
	}
	doc_table_check("docs/reference/parameters.md", "mount options", table.ptr);
}
END_TEST

/* ---- what the kernel shows ---- */

/* The world's only disk, with this filesystem; then `tune` runs on it. */
static struct nvme_disk *disk_with(const char *mkfs, const char *tune)
{
	struct nvme_disk *d;

	private_mounts();
	nvme_world_init(&w);
	d = nvme_world_add(&w, 1, "", 320 * MIB);
	run_tool("%s -q %s && %s %s >/dev/null && mkdir %s/at", mkfs, d->loop, tune, d->loop,
	         w.root);
	return d;
}

/* Mounts it with the flag and the added ones; *ret: the options in mountinfo. */
static int mount_with(const struct nvme_disk *d, const char *fs_type, const char *flag,
                      struct str *ret, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct strs flags AUTO(strs_clear) = STRS_INIT;
	struct mount_target target AUTO(mount_target_clear) = MOUNT_TARGET_INIT;
	char *at AUTO(free) = xasprintf("%s/at", w.root);
	const struct mount *m;

	strs_add(&flags, flag);
	mount_flags_add_safe(fs_type, &flags);
	if (mount_target_open(at, &target, err) ||
	    mount_filesystem(d->loop, &target, fs_type, &flags, 1, err))
		return -1;
	ck_assert_int_eq(mount_table_read("/proc", &t, err), 0);
	m = mount_at(&t, at);
	str_addf(ret, "%s;%s", m->options, m->fs_options);
	ck_assert_int_eq(mount_remove(at, false, err), 0);
	return 0;
}

START_TEST(mountinfo_shows_flags_as_the_header_says)
{
	static const struct {
		const char *mkfs, *tune, *fs_type, *flag, *shown;
	} rows[] = {
		{ "mkfs.ext4", "true", "ext4", "rw", "rw,relatime;rw,errors=remount-ro" },
		{ "mkfs.ext4", "tune2fs -e remount-ro", "ext4", "rw", "rw,relatime;rw" },
		{ "mkfs.ext4", "tune2fs -e panic", "ext4", "rw",
		  "rw,relatime;rw,errors=remount-ro" },
		{ "mkfs.ext4", "tune2fs -E mount_opts=errors=panic", "ext4", "rw",
		  "rw,relatime;rw,errors=remount-ro" },
		{ "mkfs.ext3", "tune2fs -e panic", "ext3", "rw",
		  "rw,relatime;rw,errors=remount-ro" },
		{ "mkfs.ext4", "tune2fs -e panic", "ext4", "errors=continue",
		  "rw,relatime;rw,errors=continue" },
		{ "mkfs.ext4", "true", "ext4",
		  "strictatime,nosuid,nodev,noexec,nodiratime,silent,async",
		  "rw,nosuid,nodev,noexec,nodiratime;rw,errors=remount-ro" },
		{ "mkfs.ext4", "true", "ext4",
		  "noatime,sync,dirsync,lazytime,nofail,_netdev,x-any=1",
		  "rw,noatime;rw,sync,dirsync,lazytime,errors=remount-ro" },
		{ "mkfs.ext4", "true", "ext4", "ro,noload,barrier=0",
		  "ro,relatime;ro,norecovery,nobarrier,errors=remount-ro" },
	};
	struct str shown AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	struct nvme_disk *d;

	SKIP_UNLESS_LOOP();
	d = disk_with(rows[_i].mkfs, rows[_i].tune);
	ck_assert_msg(mount_with(d, rows[_i].fs_type, rows[_i].flag, &shown, &err) == 0, "%s: %s",
	              rows[_i].flag, err.msg);
	ck_assert_msg(str_eq(shown.ptr, rows[_i].shown), "%s, %s: %s", rows[_i].tune, rows[_i].flag,
	              shown.ptr);
	nvme_world_clear(&w);
}
END_TEST

START_TEST(a_btrfs_is_mounted_from_its_top_whatever_its_default_is)
{
	struct str shown AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	struct nvme_disk *d;

	SKIP_UNLESS_LOOP();
	d = disk_with("mkfs.btrfs", "true");
	run_tool("mount -t btrfs %s %s/at && btrfs -q subvolume create %s/at/sub && "
	         "btrfs -q subvolume set-default %s/at/sub && umount %s/at",
	         d->loop, w.root, w.root, w.root, w.root);
	ck_assert_msg(mount_with(d, "btrfs", "noatime", &shown, &err) == 0, "%s", err.msg);
	ck_assert_msg(strstr(shown.ptr, "subvolid=5,subvol=/") != NULL, "%s", shown.ptr);
	nvme_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("mount flags", 60, what_is_not_on_the_list_of_its_filesystem_is_refused,
              flags_are_split_at_commas_outside_a_context,
              flags_of_an_unknown_filesystem_are_checked_once_it_is_known,
              each_filesystem_gets_the_flags_that_protect_the_host, the_document_has_the_list,
              LOOP(mountinfo_shows_flags_as_the_header_says, 9),
              a_btrfs_is_mounted_from_its_top_whatever_its_default_is);
