/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim that is smaller than mkfs requires would be bound, but its pod would never start, so
 * CreateVolume refuses the claim; the node checks the size again before it formats. Figures are
 * those of e2fsprogs 1.47, xfsprogs 6.1 and btrfs-progs 6.2; test_filesystem_size.c compares them
 * with the tools.
 */
#include "volume/filesystem_size.h"

#include "common/cleanup.h"
#include "common/str.h"

#define MIB (UINT64_C(1) << 20)

/* Size of the journal that mke2fs requires; without a journal, ext3 would be ext2. */
#define JOURNAL_BLOCKS 2048
/* mke2fs uses these values below FILESYSTEM_LARGE_EXT. */
#define SMALL_BLOCK 1024
#define SMALL_BYTES_PER_INODE 4096

static const struct {
	const char *fs;
	uint64_t bytes;
} without_keys[] = {
	{ "ext4", 1 * MIB },
	{ "ext3", 4 * MIB },
	{ "xfs", 300 * MIB },
	{ "btrfs", 114294784 },
};

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Adds the effect of the keys for ext3 and ext4; keys of other filesystems change nothing. */
static uint64_t with_keys(const char *fs, const struct mkfs_params *m, uint64_t least)
{
	uint64_t inode = m->inode_size ? m->inode_size : 256;
	uint64_t ret = least;

	if (str_eq(fs, "ext3"))
		ret = most(ret, JOURNAL_BLOCKS * (m->block_size ? m->block_size : SMALL_BLOCK));
	/* mke2fs uses up to half of the inodes' size for metadata located between them. */
	ret = most(ret, m->number_of_inodes ? least + m->number_of_inodes * inode / 5 * 8 : 0);
	ret = most(ret, 16 * m->ext4_cluster_size);
	/* Otherwise the inodes would fill the filesystem. */
	if (inode >= SMALL_BYTES_PER_INODE && !m->bytes_per_inode && !m->number_of_inodes)
		ret = most(ret, FILESYSTEM_LARGE_EXT);
	return ret;
}

uint64_t filesystem_least_bytes(const char *fs, const struct mkfs_params *m)
{
	for (size_t i = 0; i < ARRAY_LEN(without_keys); i++)
		if (str_eq(without_keys[i].fs, fs))
			return str_has_prefix(fs, "ext") ? with_keys(fs, m, without_keys[i].bytes)
			                                 : without_keys[i].bytes;
	return 0;
}
