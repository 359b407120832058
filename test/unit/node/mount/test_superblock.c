/* SPDX-License-Identifier: Apache-2.0 */
/* Superblocks of the real tools, intact and with a wrong byte. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/mount/superblock.h"
#include "test/lib/node_world.h"

static int image(const char *script)
{
	char name[] = "/var/tmp/superblock-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 320 * MIB), 0);
	run_tool("f=%s; { %s; } 2>&1", name, script);
	unlink(name);
	return fd;
}

START_TEST(a_superblock_is_sound_until_a_byte_of_it_is_wrong)
{
	static const struct {
		const char *what, *type, *script;
		uint64_t size, files_from;
		off_t byte;    /* of the label */
		bool detected; /* the wrong byte is detected */
	} rows[] = {
		{ "ext4", "ext4", "mkfs.ext4 -q -O metadata_csum,64bit -b4096 $f", 320 * MIB,
		  (1 + 1 + 39) * 4096, 1024 + 0x80, true },
		{ "ext4, 1 KiB blocks", "ext4",
		  "mkfs.ext4 -q -O metadata_csum,64bit -b1024 $f 100M", 100 * MIB,
		  (1 + 1 + 1 + 256) * 1024, 1024 + 0x80, true },
		{ "ext3", "ext3", "mkfs.ext3 -q -b4096 $f", 320 * MIB, (1 + 1 + 19) * 4096,
		  1024 + 0x80, false },
		{ "xfs", "xfs", "mkfs.xfs -q $f", 320 * MIB, 16384, 108 + 8, true },
		{ "xfs, 4 KiB sectors", "xfs", "mkfs.xfs -q -s size=4096 $f", 320 * MIB, 28672,
		  108 + 8, true },
		{ "xfs, version 4", "xfs", "mkfs.xfs -q -m crc=0 $f", 320 * MIB, 16384, 108 + 8,
		  false },
		{ "btrfs", "btrfs", "mkfs.btrfs -q $f", 320 * MIB, MIB, 65536 + 0x12b + 9, true },
		{ "btrfs with another checksum", "btrfs", "mkfs.btrfs -q --csum sha256 $f",
		  320 * MIB, MIB, 0, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = image(rows[i].script);
		struct err err = ERR_INIT;
		struct superblock sb;

		ck_assert_msg(superblock_read(fd, "img", rows[i].type, &sb, &err) == 0, "%s: %s",
		              rows[i].what, err.msg);
		ck_assert_msg(sb.sound == (rows[i].byte != 0), "%s", rows[i].what);
		ck_assert_msg(sb.size == rows[i].size, "%s: size %ju", rows[i].what,
		              (uintmax_t)sb.size);
		ck_assert_msg(sb.files_from == rows[i].files_from, "%s: files from %ju",
		              rows[i].what, (uintmax_t)sb.files_from);
		if (!rows[i].byte)
			continue;
		ck_assert_int_eq(pwrite(fd, "x", 1, rows[i].byte), 1);
		ck_assert_int_eq(superblock_read(fd, "img", rows[i].type, &sb, &err), 0);
		ck_assert_msg(sb.sound == !rows[i].detected, "%s, with a wrong byte", rows[i].what);
	}
}
END_TEST

START_TEST(the_size_of_blocks_is_read)
{
	static const struct {
		const char *type, *script;
		uint64_t block_size;
	} rows[] = {
		{ "ext4", "mkfs.ext4 -q -b1024 $f", 1024 },
		{ "ext3", "mkfs.ext3 -q -b4096 $f", 4096 },
		{ "ext4", "mkfs.ext4 -q -F -b65536 $f 2>&1", 65536 },
		{ "xfs", "mkfs.xfs -q -bsize=2048 $f", 2048 },
		{ "xfs", "mkfs.xfs -q -bsize=65536 -lsize=64m $f", 65536 },
		{ "btrfs", "mkfs.btrfs -q -s4096 $f", 4096 },
		{ "btrfs", "mkfs.btrfs -q -s65536 -n65536 $f", 65536 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = image(rows[i].script);
		struct err err = ERR_INIT;
		struct superblock sb;

		ck_assert_int_eq(superblock_read(fd, "img", rows[i].type, &sb, &err), 0);
		ck_assert_msg(sb.block_size == rows[i].block_size, "%s: %ju", rows[i].script,
		              (uintmax_t)sb.block_size);
	}
}
END_TEST

START_TEST(numbers_that_make_no_sense_are_not_sound)
{
	static const struct {
		const char *type, *script;
	} rows[] = {
		{ "ext4", "true" },
		{ "ext3", "mkfs.ext3 -q $f; printf '\\1\\0\\0\\0' | dd of=$f bs=1 seek=1056 "
		          "conv=notrunc" },
		{ "xfs", "true" },
		{ "btrfs", "true" },
		{ "ext3", "tr '\\0' '\\377' </dev/zero | dd of=$f bs=1M count=1 conv=notrunc" },
		{ "xfs", "tr '\\0' '\\377' </dev/zero | dd of=$f bs=1M count=1 conv=notrunc" },
		{ "btrfs", "tr '\\0' '\\377' </dev/zero | dd of=$f bs=1M count=1 conv=notrunc" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = image(rows[i].script);
		struct err err = ERR_INIT;
		struct superblock sb;

		ck_assert_int_eq(superblock_read(fd, "img", rows[i].type, &sb, &err), 0);
		ck_assert_msg(!sb.sound, "%s, %zu", rows[i].type, i);
	}
}
END_TEST

START_TEST(what_is_not_known_or_not_readable_is_told)
{
	int fd AUTO(fd) = image("truncate -s 100 $f");
	struct err err = ERR_INIT;
	struct superblock sb;

	ck_assert_int_eq(superblock_read(fd, "img", "vfat", &sb, &err), SUPERBLOCK_UNKNOWN);
	ck_assert_int_eq(superblock_read(fd, "img", "xfs", &sb, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
}
END_TEST

SUITE_TIMEOUT("superblock", 60, a_superblock_is_sound_until_a_byte_of_it_is_wrong,
              the_size_of_blocks_is_read, numbers_that_make_no_sense_are_not_sound,
              what_is_not_known_or_not_readable_is_told);
