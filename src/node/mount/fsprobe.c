/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures on a device: the only user of libblkid. It is asked for all superblocks and partition
 * tables, one after the other, bad checksums included: a damaged filesystem is still somebody's
 * filesystem. The few numbers that libblkid does not give (size, xfs "in progress") are read from
 * the superblocks themselves. Does not decide what may be overwritten.
 *
 * Sources: ext4 Documentation/filesystems/ext4/super.rst, xfs_format.h (struct xfs_dsb), btrfs
 * on-disk format.
 */
#include "node/mount/fsprobe.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

DEFINE_AUTO(blkid_probe, blkid_free_probe);

static const char *value(blkid_probe p, const char *name)
{
	const char *v = NULL;

	return blkid_probe_lookup_value(p, name, &v, NULL) == 0 && v ? v : "";
}

static void copy(char *to, size_t n, const char *from)
{
	size_t len = strnlen(from, n - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

/* One signature into the result. */
static void add_signature(blkid_probe p, unsigned nth, struct fsprobe *ret, struct str *found)
{
	const char *type = value(p, "TYPE"), *table = value(p, "PTTYPE");
	bool filesystem = !str_empty(type) && str_eq(value(p, "USAGE"), "filesystem");
	const char *at =
		value(p, filesystem || str_empty(table) ? "SBMAGIC_OFFSET" : "PTMAGIC_OFFSET");

	str_addf(found, "%s%s", nth ? " and " : "", str_empty(type) ? table : type);
	str_add(found, filesystem ? " filesystem" : str_empty(type) ? " partition table" : "");
	if (!str_empty(at))
		str_addf(found, " (signature at byte %s)", at);
	ret->kind = filesystem && nth == 0 ? FSPROBE_FILESYSTEM : FSPROBE_FOREIGN;
	copy(ret->type, sizeof(ret->type), filesystem ? type : "");
	copy(ret->uuid, sizeof(ret->uuid), filesystem ? value(p, "UUID") : "");
}

static blkid_probe new_probe(int fd, const char *name, struct err *err)
{
	blkid_probe p = blkid_new_probe();

	if (!p)
		abort();
	errno = 0;
	if (blkid_probe_set_device(p, fd, 0, 0) || blkid_probe_get_size(p) <= 0) {
		err_set(err, ERR_UNAVAILABLE, "read %s: its size is unknown", name);
		err->sys = errno;
		blkid_free_probe(p);
		return NULL;
	}
	blkid_probe_enable_superblocks(p, 1);
	blkid_probe_set_superblocks_flags(p, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE |
	                                             BLKID_SUBLKS_UUID | BLKID_SUBLKS_MAGIC |
	                                             BLKID_SUBLKS_BADCSUM);
	blkid_probe_enable_partitions(p, 1);
	blkid_probe_set_partitions_flags(p, BLKID_PARTS_MAGIC);
	return p;
}

/* ---- superblocks ---- */

static uint32_t le32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint32_t be32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t be64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static void read_ext(const uint8_t *sb, struct fsprobe *ret)
{
	enum { BLOCKS_LO = 0x04, LOG_BLOCK_SIZE = 0x18, INCOMPAT = 0x60, BLOCKS_HI = 0x150 };
	enum { INCOMPAT_64BIT = 0x80 };
	uint64_t blocks = le32(sb + BLOCKS_LO);

	if (le32(sb + INCOMPAT) & INCOMPAT_64BIT)
		blocks |= (uint64_t)le32(sb + BLOCKS_HI) << 32;
	ret->size = blocks * (1024ULL << (le32(sb + LOG_BLOCK_SIZE) & 15));
}

static void read_xfs(const uint8_t *sb, struct fsprobe *ret)
{
	enum { BLOCK_SIZE = 4, DATA_BLOCKS = 8, IN_PROGRESS = 126 };

	ret->size = be64(sb + DATA_BLOCKS) * be32(sb + BLOCK_SIZE);
	ret->unfinished = sb[IN_PROGRESS] != 0;
}

static void read_btrfs(const uint8_t *sb, struct fsprobe *ret)
{
	enum { TOTAL_BYTES = 0x70 };

	ret->size = le64(sb + TOTAL_BYTES);
}

static const struct superblock {
	const char *type;
	off_t offset;
	void (*read)(const uint8_t *sb, struct fsprobe *ret);
} superblocks[] = {
	{ "ext4", 1024, read_ext },
	{ "ext3", 1024, read_ext },
	{ "xfs", 0, read_xfs },
	{ "btrfs", 65536, read_btrfs },
};

static int read_superblock(int fd, const char *name, struct fsprobe *ret, struct err *err)
{
	uint8_t sb[1024];

	for (size_t i = 0; i < ARRAY_LEN(superblocks); i++) {
		if (!str_eq(superblocks[i].type, ret->type))
			continue;
		if (pread(fd, sb, sizeof(sb), superblocks[i].offset) != (ssize_t)sizeof(sb)) {
			err_sys(err, errno ? errno : EIO, "read the %s superblock of %s", ret->type,
			        name);
			return err_recode(err, ERR_UNAVAILABLE);
		}
		superblocks[i].read(sb, ret);
	}
	return 0;
}

int fsprobe_fd(int fd, const char *name, struct fsprobe *ret, struct err *err)
{
	struct str found AUTO(str_clear) = STR_INIT(sizeof(ret->found) - 1);
	blkid_probe p AUTO(blkid_free_probe) = new_probe(fd, name, err);
	struct fsprobe r = { .kind = FSPROBE_NOTHING };
	unsigned n = 0;
	int rc;

	if (!p)
		return -1;
	errno = 0;
	while ((rc = blkid_do_probe(p)) == 0)
		add_signature(p, n++, &r, &found);
	if (rc < 0) {
		err_sys(err, errno ? errno : EIO, "look for signatures on %s", name);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	if (r.kind == FSPROBE_FOREIGN)
		r.type[0] = r.uuid[0] = '\0';
	copy(r.found, sizeof(r.found), n ? found.ptr : "no known signature");
	if (r.kind == FSPROBE_FILESYSTEM && read_superblock(fd, name, &r, err))
		return -1;
	*ret = r;
	return 0;
}
