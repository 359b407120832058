/* SPDX-License-Identifier: Apache-2.0 */
/* The findings on images created by the real tools. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "node/mount/fsprobe.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"

/* A sparse image of 320 MiB after `script` ($f is its name), open; the file itself is removed. */
static int image(const char *script)
{
	char name[] = "/var/tmp/fsprobe-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 320 << 20), 0);
	run_tool("f=%s; { %s; } 2>&1", name, script);
	unlink(name);
	return fd;
}

#define MAGIC_AT(offset, bytes) "printf '" bytes "' | dd of=$f bs=1 seek=" #offset " conv=notrunc"

START_TEST(each_kind_is_told_apart)
{
	static const struct {
		const char *what, *script;
		enum fsprobe_kind kind;
		const char *type, *found; /* found: a substring of it */
	} rows[] = {
		{ "nothing", "true", FSPROBE_NOTHING, "", "no known signature" },
		{ "ext4", "mkfs.ext4 -q $f", FSPROBE_FILESYSTEM, "ext4",
		  "ext4 filesystem (signature at byte 1080)" },
		{ "ext3", "mkfs.ext3 -q $f", FSPROBE_FILESYSTEM, "ext3", "ext3 filesystem" },
		{ "xfs", "mkfs.xfs -q $f", FSPROBE_FILESYSTEM, "xfs",
		  "xfs filesystem (signature at byte 0)" },
		{ "btrfs", "mkfs.btrfs -q $f", FSPROBE_FILESYSTEM, "btrfs", "btrfs filesystem" },
		{ "ext4 with a broken superblock byte", "mkfs.ext4 -q $f; " MAGIC_AT(1100, "\\377"),
		  FSPROBE_FILESYSTEM, "ext4", "ext4 filesystem" },
		{ "swap", "mkswap $f", FSPROBE_FOREIGN, "", "swap (signature at byte 4086)" },
		{ "LUKS", MAGIC_AT(0, "LUKS\\272\\276\\000\\001"), FSPROBE_FOREIGN, "",
		  "crypto_LUKS" },
		{ "LVM",
		  MAGIC_AT(512, "LABELONE\\001\\000\\000\\000\\000\\000\\000\\000"
		                "\\000\\000\\000\\000\\040\\000\\000\\000LVM2 001"),
		  FSPROBE_FOREIGN, "", "LVM2_member" },
		{ "gpt", "echo 'label: gpt\n,' | sfdisk -q --no-tell-kernel $f", FSPROBE_FOREIGN,
		  "", "gpt partition table (signature at byte 512)" },
		{ "dos table", "echo 'label: dos\n,' | sfdisk -q --no-tell-kernel $f",
		  FSPROBE_FOREIGN, "", "dos partition table (signature at byte 510)" },
		{ "ext4 inside xfs",
		  "mkfs.xfs -q $f; truncate -s 320M $f.2; mkfs.ext4 -q $f.2; dd if=$f.2 of=$f "
		  "bs=1k "
		  "skip=1 seek=1 count=1 conv=notrunc; rm $f.2",
		  FSPROBE_FOREIGN, "", " and " },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = image(rows[i].script);
		struct err err = ERR_INIT;
		struct fsprobe p;

		ck_assert_msg(fsprobe_fd(fd, "img", &p, &err) == 0, "%s: %s", rows[i].what,
		              err.msg);
		ck_assert_msg(p.kind == rows[i].kind, "%s: kind %d, %s", rows[i].what, p.kind,
		              p.found);
		ROW_STR_EQ(rows[i].what, p.type, rows[i].type);
		ck_assert_msg(strstr(p.found, rows[i].found) != NULL, "%s: %s", rows[i].what,
		              p.found);
		ck_assert(!p.unfinished);
	}
}
END_TEST

START_TEST(a_filesystem_says_how_large_it_is)
{
	static const struct {
		const char *what, *script;
		uint64_t size;
	} rows[] = {
		{ "ext4", "mkfs.ext4 -q $f 100M", 100 << 20 },
		{ "ext4 with 4k blocks", "mkfs.ext4 -q -b4096 -O64bit $f 200M", 200 << 20 },
		{ "ext3", "mkfs.ext3 -q $f 50M", 50 << 20 },
		{ "xfs", "mkfs.xfs -q -d size=310m $f", 310 << 20 },
		{ "btrfs", "mkfs.btrfs -q -b 200M $f", 200 << 20 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = image(rows[i].script);
		struct err err = ERR_INIT;
		struct fsprobe p;

		ck_assert_msg(fsprobe_fd(fd, "img", &p, &err) == 0, "%s: %s", rows[i].what,
		              err.msg);
		ck_assert_msg(p.size == rows[i].size, "%s: %ju", rows[i].what, (uintmax_t)p.size);
		ck_assert_msg(strlen(p.uuid) == 36, "%s: %s", rows[i].what, p.uuid);
	}
}
END_TEST

START_TEST(an_unfinished_xfs_is_seen)
{
	int fd AUTO(fd) = image("mkfs.xfs -q $f; " MAGIC_AT(126, "\\001"));
	struct err err = ERR_INIT;
	struct fsprobe p;

	ck_assert_int_eq(fsprobe_fd(fd, "img", &p, &err), 0);
	ck_assert_str_eq(p.type, "xfs");
	ck_assert(p.unfinished);
}
END_TEST

START_TEST(what_cannot_be_read_is_not_empty)
{
	int closed = open("/dev/null", O_RDONLY);
	int empty AUTO(fd) = open("/proc/self/stat", O_RDONLY);
	struct err err = ERR_INIT;
	struct fsprobe p;

	close(closed);
	ck_assert_int_eq(fsprobe_fd(closed, "img", &p, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	ck_assert_int_eq(fsprobe_fd(empty, "img", &p, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
}
END_TEST

START_TEST(a_device_that_answers_with_errors_is_not_empty)
{
	struct nvme_world w;
	struct err err = ERR_INIT;
	struct nvme_disk *d;
	struct fsprobe p;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	d = nvme_world_add(&w, 1, "", 64 << 20);
	ck_assert_int_eq(truncate(d->image, 0), 0); /* now every read fails with EIO */
	ck_assert_int_eq(fsprobe_fd(d->fd, d->node, &p, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	nvme_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("fsprobe", 120, each_kind_is_told_apart, a_filesystem_says_how_large_it_is,
              an_unfinished_xfs_is_seen, what_cannot_be_read_is_not_empty,
              a_device_that_answers_with_errors_is_not_empty);
