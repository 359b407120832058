/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requested flags compared with mountinfo: recorded lines of several kernels. The lines of the
 * running kernel are tested where volumes are staged: node/disk/test_staged_disk.c.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/mount/mount_same.h"

#define POINT "rw,relatime"
#define XFS_6_1 "rw,attr2,inode64,logbufs=8,logbsize=32k,noquota"
#define BTRFS_6_1 "rw,discard=async,space_cache=v2,subvolid=5,subvol=/"
#define CONTEXT "context=system_u:object_r:container_file_t:s0:c1,c2"

static const struct {
	const char *what, *flags, *fs_type, *options, *fs_options;
	const char *differs; /* NULL: no difference */
} rows[] = {
	{ "nothing asked", "", "ext4", POINT, "rw", NULL },
	{ "defaults", "defaults", "ext4", POINT, "rw", NULL },
	{ "nosuid", "nosuid", "ext4", "rw,nosuid,relatime", "rw", NULL },
	{ "nosuid, and it is not", "nosuid", "ext4", POINT, "rw", "nosuid" },
	{ "it is nosuid", "", "ext4", "rw,nosuid,relatime", "rw", "nosuid" },
	{ "the last one counts", "nosuid,suid", "ext4", POINT, "rw", NULL },
	{ "defaults takes nothing back", "nosuid,nodev,noexec,defaults", "ext4",
	  "rw,nosuid,nodev,noexec,relatime", "rw", NULL },
	{ "defaults, and it is not nosuid", "nosuid,defaults", "ext4", POINT, "rw", "nosuid" },
	{ "sync,defaults", "sync,defaults", "ext4", POINT, "rw,sync", NULL },
	{ "sync,defaults, and it is not", "sync,defaults", "ext4", POINT, "rw", "sync" },
	{ "noatime", "noatime", "ext4", "rw,noatime", "rw", NULL },
	{ "noatime, and it is not", "noatime", "ext4", POINT, "rw",
	  "noatime, relatime or strictatime" },
	{ "strictatime", "strictatime", "ext4", "rw", "rw", NULL },
	{ "it is strictatime", "", "ext4", "rw", "rw", "noatime, relatime or strictatime" },
	{ "a contradiction", "noatime,strictatime", "ext4", POINT, "rw", NULL },
	{ "sync", "sync", "ext4", POINT, "rw,sync", NULL },
	{ "it is sync", "", "ext4", POINT, "rw,sync", "sync" },
	{ "sync of xfs", "sync", "xfs", POINT, "rw,sync,wsync,attr2,inode64", NULL },
	{ "discard", "discard", "ext4", POINT, "rw,discard", NULL },
	{ "discard, and it is not", "discard", "ext4", POINT, "rw", "discard" },
	{ "it is discard", "", "xfs", POINT, "rw,attr2,discard", "discard" },
	{ "discard on a device that has none", "discard", "xfs", POINT, XFS_6_1, NULL },
	{ "the kernel's own for data=journal", "data=journal", "ext4", POINT,
	  "rw,nodelalloc,data=journal", NULL },
	{ "it is nodelalloc", "", "ext4", POINT, "rw,nodelalloc", "nodelalloc" },
	{ "what ext3 never shows", "nodelalloc", "ext3", POINT, "rw", NULL },
	{ "quotas of the superblock", "", "xfs", POINT, "rw,attr2,inode64,usrquota", NULL },
	{ "a synonym", "barrier=0", "ext4", POINT, "rw,nobarrier", NULL },
	{ "a default by name", "barrier,delalloc,data=ordered,commit=5", "ext4", POINT, "rw",
	  NULL },
	{ "commit=0 is the default", "commit=0", "ext4", POINT, "rw", NULL },
	{ "another value", "commit=30", "ext4", POINT, "rw,commit=10", "commit=" },
	{ "a value, and it has none", "data=journal", "ext4", POINT, "rw", "data=" },
	{ "what the driver adds", "", "ext4", POINT, "rw,errors=remount-ro", NULL },
	{ "an error behaviour that is another", "errors=continue", "ext4", POINT,
	  "rw,errors=remount-ro", "errors=" },
	{ "what mkfs chose", "", "ext4", POINT, "rw,stripe=64", NULL },
	{ "xfs as it is", "", "xfs", POINT, XFS_6_1, NULL },
	{ "xfs with nouuid of the driver", "", "xfs", POINT, "rw,nouuid,attr2,inode64", NULL },
	{ "a size in other units", "allocsize=1m", "xfs", POINT, "rw,allocsize=1024k", NULL },
	{ "xfs's own choice", "logbsize=32768", "xfs", POINT, XFS_6_1, NULL },
	{ "another than xfs's choice", "logbsize=256k", "xfs", POINT, XFS_6_1, "logbsize=" },
	{ "btrfs as it is", "", "btrfs", POINT, BTRFS_6_1, NULL },
	{ "btrfs without discard", "nodiscard", "btrfs", POINT, BTRFS_6_1, "discard=async" },
	{ "a flag that no kernel shows", "nofail,x-systemd.automount", "ext4", POINT, "rw", NULL },
	{ "a replay that was not wanted", "", "ext4", POINT, "rw,norecovery", "norecovery" },
	{ "noload by its other name", "noload", "ext4", POINT, "rw,norecovery", NULL },
	{ "nologreplay by its other name", "nologreplay", "btrfs", POINT, "rw,rescue=nologreplay",
	  NULL },
	{ "context=", "context=\"system_u:object_r:container_file_t:s0:c1,c2\"", "xfs", POINT,
	  "rw,context=\"system_u:object_r:container_file_t:s0:c1,c2\",attr2", NULL },
	{ "the kernel's way of writing it", CONTEXT, "xfs", POINT,
	  "rw,context=\"system_u:object_r:container_file_t:s0:c1.c2\",attr2", NULL },
	{ "another context", CONTEXT, "xfs", POINT, "rw,context=system_u:object_r:other_t:s0,attr2",
	  "context=" },
	{ "it has a context", "", "xfs", POINT, "rw,context=a:b:c:s0", "context=" },
	{ "seclabel is none", "", "xfs", POINT, "rw,seclabel,attr2", NULL },
};

static bool differ(size_t i, struct mount_asked asked, const char **what)
{
	struct strs flags AUTO(strs_clear) = STRS_INIT;
	struct mount m = { .fs_type = (char *)rows[i].fs_type,
		           .options = (char *)rows[i].options,
		           .fs_options = (char *)rows[i].fs_options };
	bool one = str_has_prefix(rows[i].flags, "context="); /* its comma is part of it */
	char *list AUTO(free) = xstrdup(rows[i].flags), *rest = list, *flag;

	asked.flags = &flags;
	while ((flag = strsep(&rest, one ? "" : ",")))
		if (*flag)
			strs_add(&flags, flag);
	return mount_flags_differ(&asked, &m, what);
}

START_TEST(flags_are_compared_with_what_the_kernel_shows)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *what = NULL;
		bool is = differ(i, (struct mount_asked) { 0 }, &what);

		ck_assert_msg(is == (rows[i].differs != NULL), "%s: %s", rows[i].what, what);
		if (is)
			ROW_STR_EQ(rows[i].what, what, rows[i].differs);
	}
}
END_TEST

START_TEST(flags_of_the_superblock_are_nobodys_wish)
{
	static const char *const unknown[] = { "discard, and it is not", "it is discard",
		                               "another value" };
	const char *what;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t k = 0; k < ARRAY_LEN(unknown); k++)
			if (str_eq(rows[i].what, unknown[k]))
				ck_assert_msg(!differ(i,
				                      (struct mount_asked) { .superblock_has_flags =
				                                                     true },
				                      &what),
				              "%s", unknown[k]);
}
END_TEST

START_TEST(a_reader_may_or_may_not_have_the_flag_against_replay)
{
	const char *what;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].differs && str_eq(rows[i].differs, "norecovery"))
			ck_assert(!differ(i, (struct mount_asked) { .no_replay = true }, &what));
}
END_TEST

START_TEST(a_superblock_with_flags_of_its_own_is_known)
{
	static const struct {
		const char *what;
		off_t at;
		unsigned char byte;
		bool own;
	} cases[] = {
		{ "none", 1024 + 0x100, 0, false },
		{ "what mke2fs sets", 1024 + 0x100, 0xc, false },
		{ "discard", 1024 + 0x101, 4, true },
		{ "a string", 1024 + 0x200, 'd', true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char path[] = "/tmp/test_mount_same.XXXXXX";
		int fd AUTO(fd) = mkstemp(path);

		ck_assert_int_ge(fd, 0);
		unlink(path);
		ck_assert(ext_superblock_has_flags(fd)); /* it cannot be read */
		ck_assert_int_eq(ftruncate(fd, 4096), 0);
		ck_assert_int_eq(pwrite(fd, &cases[i].byte, 1, cases[i].at), 1);
		ck_assert_msg(ext_superblock_has_flags(fd) == cases[i].own, "%s", cases[i].what);
	}
}
END_TEST

SUITE("mount_same", flags_are_compared_with_what_the_kernel_shows,
      flags_of_the_superblock_are_nobodys_wish,
      a_reader_may_or_may_not_have_the_flag_against_replay,
      a_superblock_with_flags_of_its_own_is_known);
