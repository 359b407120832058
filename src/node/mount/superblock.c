/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads superblocks, with one function per format. fsprobe.c decides what a device contains.
 *
 * Sources: Documentation/filesystems/ext4/super.rst, xfs_format.h (struct xfs_dsb), btrfs on-disk
 * format.
 */
#include "node/mount/superblock.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/cleanup.h"
#include "common/str.h"

#define MIB (1024ULL * 1024)

/*
 * Continues a CRC-32C over more bytes; the first value is ~0, and some formats invert the result.
 */
static uint32_t crc32c(uint32_t crc, const uint8_t *p, size_t n)
{
	enum { BITS = 8 };
	const uint32_t polynomial = 0x82f63b78;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < BITS; bit++)
			crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
	}
	return crc;
}

static void read_ext(const uint8_t *sb, struct superblock *ret)
{
	enum {
		BLOCKS_LO = 0x04,
		FIRST_DATA_BLOCK = 0x14,
		LOG_BLOCK_SIZE = 0x18,
		BLOCKS_PER_GROUP = 0x20,
		COMPAT = 0x5c,
		INCOMPAT = 0x60,
		RO_COMPAT = 0x64,
		RESERVED_GDT = 0xce,
		DESC_SIZE = 0xfe,
		BLOCKS_HI = 0x150,
		CHECKSUM = 0x3fc,
	};
	enum { COMPAT_RESIZE_INODE = 0x10, INCOMPAT_META_BG = 0x10, INCOMPAT_64BIT = 0x80 };
	enum { RO_COMPAT_METADATA_CSUM = 0x400, LOG_BLOCK_SIZE_MAX = 6, DESC_SIZE_32BIT = 32 };
	/* minimum of mke2fs(8); keeps the product below within 64 bits */
	enum { PER_GROUP_MIN = 256 };
	bool wide = le32(sb + INCOMPAT) & INCOMPAT_64BIT;
	uint32_t log = le32(sb + LOG_BLOCK_SIZE), per_group = le32(sb + BLOCKS_PER_GROUP);
	uint64_t first = le32(sb + FIRST_DATA_BLOCK), block = 1024ULL << (log & 15);
	uint64_t blocks = le32(sb + BLOCKS_LO), descriptors = 1, reserved = 0;

	if (wide)
		blocks |= (uint64_t)le32(sb + BLOCKS_HI) << 32;
	ret->size = blocks * block;
	ret->block_size = block;
	if (log > LOG_BLOCK_SIZE_MAX || per_group < PER_GROUP_MIN || blocks >> 48 || first > 1)
		return;
	if (!(le32(sb + INCOMPAT) & INCOMPAT_META_BG))
		descriptors = (blocks / per_group + 1) *
		                      (wide ? le16(sb + DESC_SIZE) : DESC_SIZE_32BIT) / block +
		              1;
	if (le32(sb + COMPAT) & COMPAT_RESIZE_INODE)
		reserved = le16(sb + RESERVED_GDT);
	ret->files_from = (first + 1 + descriptors + reserved) * block;
	ret->sound = !(le32(sb + RO_COMPAT) & RO_COMPAT_METADATA_CSUM) ||
	             crc32c(~0U, sb, CHECKSUM) == le32(sb + CHECKSUM);
}

static bool xfs_checksum_is_right(const uint8_t *sb, size_t sector)
{
	enum { CRC = 224 };
	static const uint8_t zero[4];
	uint32_t crc = crc32c(~0U, sb, CRC);

	crc = crc32c(crc, zero, sizeof(zero));
	return ~crc32c(crc, sb + CRC + 4, sector - CRC - 4) == le32(sb + CRC);
}

static void read_xfs(const uint8_t *sb, struct superblock *ret)
{
	enum { BLOCK_SIZE = 4, DATA_BLOCKS = 8, VERSION = 100, SECTOR_SIZE = 102 };
	enum { IN_PROGRESS = 126, VERSION_MASK = 15, VERSION_5 = 5, AG_HEADERS = 4 };
	uint64_t block = be32(sb + BLOCK_SIZE), blocks = be64(sb + DATA_BLOCKS);
	uint16_t sector = be16(sb + SECTOR_SIZE);

	ret->size = blocks * block;
	ret->block_size = block;
	ret->unfinished = sb[IN_PROGRESS] != 0;
	if (block < 512 || block > 65536 || blocks >> 48 || sector < 512 || sector > 4096)
		return;
	/*
	 * The files are preceded by four sectors, rounded up to whole blocks, and by the roots of
	 * the first three trees. md 1.2 and bcache have their signatures at 4 KiB and do not
	 * overwrite the superblock of an older xfs.
	 */
	ret->files_from = ((uint64_t)AG_HEADERS * sector + block - 1) / block * block + 3 * block;
	if (ret->files_from < 8192)
		ret->files_from = 8192;
	ret->sound = (be16(sb + VERSION) & VERSION_MASK) != VERSION_5 ||
	             xfs_checksum_is_right(sb, sector);
}

static void read_btrfs(const uint8_t *sb, struct superblock *ret)
{
	enum { AFTER_CHECKSUM = 0x20, FSID = 0x20, TOTAL_BYTES = 0x70, DEVICES = 0x88 };
	enum { SECTOR_SIZE = 0x90, INCOMPAT = 0xbc, METADATA_UUID = 0x23b };
	enum { CHECKSUM_TYPE = 0xc4, CRC32C = 0, SIZE = 4096, HAS_METADATA_UUID = 1 << 10 };
	bool apart = le64(sb + INCOMPAT) & HAS_METADATA_UUID;

	ret->size = le64(sb + TOTAL_BYTES);
	ret->block_size = le32(sb + SECTOR_SIZE);
	ret->devices = le64(sb + DEVICES);
	memcpy(ret->metadata_uuid, sb + (apart ? METADATA_UUID : FSID), sizeof(ret->metadata_uuid));
	/*
	 * The first MiB of a device is reserved. If there are several devices, the size of this
	 * device's part is unknown.
	 */
	ret->files_from = MIB;
	ret->sound = le16(sb + CHECKSUM_TYPE) == CRC32C && ret->devices == 1 &&
	             ~crc32c(~0U, sb + AFTER_CHECKSUM, SIZE - AFTER_CHECKSUM) == le32(sb);
}

int superblock_read(int fd, const char *name, const char *fs_type, struct superblock *ret,
                    struct err *err)
{
	static const struct {
		const char *type;
		off_t offset;
		size_t size;
		void (*read)(const uint8_t *sb, struct superblock *ret);
	} rows[] = {
		{ "ext4", 1024, 1024, read_ext },
		{ "ext3", 1024, 1024, read_ext },
		{ "xfs", 0, 4096, read_xfs },
		{ "btrfs", 65536, 4096, read_btrfs },
	};
	uint8_t sb[4096];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ssize_t n;

		if (!str_eq(rows[i].type, fs_type))
			continue;
		n = pread(fd, sb, rows[i].size, rows[i].offset);
		if (n != (ssize_t)rows[i].size) {
			err_sys(err, n < 0 ? errno : EIO, "read the %s superblock of %s", fs_type,
			        name);
			return err_recode(err, ERR_UNAVAILABLE);
		}
		*ret = (struct superblock) { .size = 0 };
		rows[i].read(sb, ret);
		return 0;
	}
	return SUPERBLOCK_UNKNOWN;
}
