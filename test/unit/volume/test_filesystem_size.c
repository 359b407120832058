/* SPDX-License-Identifier: Apache-2.0 */
/* The real tools create each filesystem at the smallest accepted size. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/spawn.h"
#include "common/str.h"
#include "test/lib/suite.h"
#include "volume/filesystem_size.h"
#include "test/lib/wait.h"

#define MIB (UINT64_C(1) << 20)

/* Runs the words of `command` and the descriptor's path; its output is in `output`. */
static int run(const char *command, int fd, struct str *output)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	int rc;

	for (const char *at = command; *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		strs_addf(&argv, "%.*s", (int)n, at);
		at += n;
	}
	strs_add(&argv, SPAWN_FD_PATH);
	str_reset(output);
	rc = spawn_run_fd(&argv, fd, wait_limit(), output, &err);
	ck_assert_msg(rc >= 0, "%s: %s", command, err.msg);
	return rc;
}

/* The type of the filesystem that mkfs creates in a file of that size, "" if it fails. */
static const char *made(const char *mkfs, uint64_t bytes, struct str *output)
{
	char name[] = "/var/tmp/test_filesystem_size-XXXXXX";
	int fd AUTO(fd) = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	if (run(mkfs, fd, output))
		return "";
	ck_assert_int_eq(run("blkid -p -o value -s TYPE", fd, output), 0);
	return spawn_last_line(output);
}

static const struct {
	const char *what, *fs;
	struct mkfs_params keys;
	uint64_t least;
	const char *mkfs; /* as the node calls it */
	uint64_t too_small;
	const char *makes; /* result of the tool for too_small bytes */
} rows[] = {
	{ "ext4", "ext4", { 0 }, MIB, "mkfs.ext4 -q -m0", 65536, "" },
	{ "ext4 of big blocks",
	  "ext4",
	  { .block_size = 4096 },
	  MIB,
	  "mkfs.ext4 -q -m0 -b4096",
	  MIB / 8,
	  "" },
	{ "ext3", "ext3", { 0 }, 4 * MIB, "mkfs.ext3 -q -m0", MIB, "ext2" },
	{ "ext3 of middle blocks",
	  "ext3",
	  { .block_size = 2048 },
	  4 * MIB,
	  "mkfs.ext3 -q -m0 -b2048",
	  3 * MIB,
	  "ext2" },
	{ "ext3 of big blocks",
	  "ext3",
	  { .block_size = 4096 },
	  8 * MIB,
	  "mkfs.ext3 -q -m0 -b4096",
	  7 * MIB,
	  "ext2" },
	{ "ext4 of clusters",
	  "ext4",
	  { .ext4_bigalloc = true, .ext4_cluster_size = MIB },
	  16 * MIB,
	  "mkfs.ext4 -q -m0 -Obigalloc -C1048576",
	  8 * MIB,
	  "" },
	{ "ext4 of the biggest clusters",
	  "ext4",
	  { .ext4_bigalloc = true, .ext4_cluster_size = 128 * MIB },
	  2048 * MIB,
	  "mkfs.ext4 -q -m0 -Obigalloc -C134217728",
	  512 * MIB,
	  "" },
	{ "ext4 of many inodes",
	  "ext4",
	  { .number_of_inodes = 100000 },
	  MIB + 40960000,
	  "mkfs.ext4 -q -m0 -N100000",
	  25600000,
	  "" },
	{ "ext4 of very many inodes",
	  "ext4",
	  { .number_of_inodes = 2000000 },
	  MIB + 819200000,
	  "mkfs.ext4 -q -m0 -N2000000",
	  512000000,
	  "" },
	{ "ext4 of ten million inodes",
	  "ext4",
	  { .number_of_inodes = 10000000 },
	  MIB + 4096000000,
	  "mkfs.ext4 -q -m0 -N10000000",
	  2560000000,
	  "" },
	{ "ext3 of many big inodes",
	  "ext3",
	  { .number_of_inodes = 20000, .inode_size = 1024 },
	  4 * MIB + 32768000,
	  "mkfs.ext3 -q -m0 -N20000 -I1024",
	  20480000,
	  "" },
	{ "few inodes",
	  "ext4",
	  { .number_of_inodes = 16 },
	  MIB + 6552,
	  "mkfs.ext4 -q -m0 -N16",
	  32768,
	  "" },
	{ "inodes as big as what they are for",
	  "ext4",
	  { .inode_size = 4096, .block_size = 4096 },
	  512 * MIB,
	  "mkfs.ext4 -q -m0 -I4096 -b4096",
	  511 * MIB,
	  "" },
	{ "such inodes, but fewer",
	  "ext4",
	  { .inode_size = 4096, .block_size = 4096, .bytes_per_inode = 65536 },
	  MIB,
	  "mkfs.ext4 -q -m0 -I4096 -b4096 -i65536",
	  65536,
	  "" },
	{ "xfs", "xfs", { 0 }, 300 * MIB, "mkfs.xfs -q -K", 299 * MIB, "" },
	{ "xfs of small blocks",
	  "xfs",
	  { .block_size = 1024, .inode_size = 512 },
	  300 * MIB,
	  "mkfs.xfs -q -K -bsize=1024 -isize=512",
	  299 * MIB,
	  "" },
	{ "btrfs", "btrfs", { 0 }, 114294784, "mkfs.btrfs -q -K", 114294784 - 4096, "" },
};

START_TEST(the_tools_make_it_of_the_least_size_and_not_of_much_less)
{
	uint64_t least = filesystem_least_bytes(rows[_i].fs, &rows[_i].keys);
	struct str output AUTO(str_clear) = STR_INIT(4096);

	ck_assert_msg(least == rows[_i].least, "%s: %llu", rows[_i].what,
	              (unsigned long long)least);
	ck_assert_uint_lt(rows[_i].too_small, least);
	if (str_eq(rows[_i].fs, "btrfs") && geteuid() != 0)
		return; /* it needs to access loop devices */
	ROW_STR_EQ(rows[_i].what, made(rows[_i].mkfs, least, &output), rows[_i].fs);
	ROW_STR_EQ(rows[_i].what, made(rows[_i].mkfs, rows[_i].too_small, &output), rows[_i].makes);
}
END_TEST

START_TEST(what_is_no_filesystem_of_ours_needs_nothing)
{
	struct mkfs_params none = { 0 };

	ck_assert_uint_eq(filesystem_least_bytes("vfat", &none), 0);
}
END_TEST

SUITE_TIMEOUT("filesystem_size", 120,
              LOOP(the_tools_make_it_of_the_least_size_and_not_of_much_less, ARRAY_LEN(rows)),
              what_is_no_filesystem_of_ours_needs_nothing);
