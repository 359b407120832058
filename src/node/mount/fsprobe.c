/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the signatures on a device; the only user of libblkid. Probes for every superblock and
 * every partition table, one after the other. Includes those with bad checksums, because a damaged
 * filesystem is still a filesystem. Does not decide what may be overwritten.
 *
 * libblkid also searches areas that contain files; for example, the signature of a RAID member is
 * at the end of the device. So a user with write access to a file there could add a second
 * signature to a volume. Therefore a signature is treated as part of a file if it is in the range
 * in which a sound superblock (superblock.h) places the files. The filesystem would have
 * overwritten a real signature in that range, or would be smaller, because the array of a RAID
 * member is smaller than its device. Outside that range, or if the superblock is not sound, the
 * device has two signatures.
 */
#include "node/mount/fsprobe.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/thread.h"
#include "node/mount/superblock.h"

DEFINE_AUTO(blkid_probe, blkid_free_probe);

/* The probe stops at this number, which is more than any device has. */
#define SIGNATURES_MAX 32

struct signature {
	char type[40]; /* "ext4", "gpt" */
	char uuid[48];
	bool filesystem, table; /* table: a partition table */
	bool placed;            /* libblkid returned the offset: */
	uint64_t at;
};

struct signatures {
	struct signature v[SIGNATURES_MAX];
	size_t n;
	uint64_t device_size;
};

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

static void read_signature(blkid_probe p, struct signature *ret)
{
	const char *type = value(p, "TYPE"), *table = value(p, "PTTYPE");
	bool filesystem = !str_empty(type) && str_eq(value(p, "USAGE"), "filesystem");
	const char *at =
		value(p, filesystem || str_empty(table) ? "SBMAGIC_OFFSET" : "PTMAGIC_OFFSET");

	*ret = (struct signature) {
		.filesystem = filesystem,
		.table = str_empty(type),
		.placed = !str_empty(at),
		.at = strtoull(at, NULL, 10),
	};
	copy(ret->type, sizeof(ret->type), str_empty(type) ? table : type);
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

/*
 * Collects all signatures. A prober of libblkid stops at the first of several signatures, which may
 * hide another. `behind`: hides each signature that it finds (in memory), except filesystems, and
 * probes the same location again.
 */
static int collect(int fd, const char *name, bool behind, struct signatures *ret, struct err *err)
{
	blkid_probe p AUTO(blkid_free_probe) = new_probe(fd, name, err);
	int rc = 0;

	if (!p)
		return -1;
	thread_rest(); /* the first read of a device, which may hang */
	*ret = (struct signatures) { .device_size = (uint64_t)blkid_probe_get_size(p) };
	errno = 0;
	while (ret->n < SIGNATURES_MAX && (rc = blkid_do_probe(p)) == 0) {
		struct signature *s = &ret->v[ret->n];

		read_signature(p, s);
		if (ret->n && str_eq(s->type, s[-1].type) && s->placed == s[-1].placed &&
		    s->at == s[-1].at)
			continue; /* libblkid could not hide it */
		ret->n++;
		if (behind && !s->filesystem)
			(void)blkid_do_wipe(p, 1);
	}
	if (ret->n < SIGNATURES_MAX && rc < 0) {
		err_sys(err, errno ? errno : EIO, "look for signatures on %s", name);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	return 0;
}

/* Returns true if all other signatures are in the range of this filesystem's files. */
static bool holds_all_others(const struct signatures *all, const struct signature *fs,
                             const struct superblock *sb)
{
	if (all->n == SIGNATURES_MAX || !sb->sound || sb->size > all->device_size)
		return false;
	for (size_t i = 0; i < all->n; i++) {
		const struct signature *s = &all->v[i];

		if (s != fs && (!s->placed || s->at < sb->files_from || s->at >= sb->size))
			return false;
	}
	return true;
}

/* Returns in *ret the device's filesystem, according to these signatures; NULL: none. */
static int find_filesystem(int fd, const char *name, const struct signatures *all,
                           const struct signature **ret, struct superblock *sb, struct err *err)
{
	*ret = NULL;
	for (size_t i = 0; i < all->n; i++) {
		const struct signature *s = &all->v[i];
		int rc;

		*sb = (struct superblock) { .size = 0 };
		if (!s->filesystem)
			continue;
		rc = superblock_read(fd, name, s->type, sb, err);
		if (rc < 0)
			return -1;
		if (all->n == 1 || (rc == 0 && holds_all_others(all, s, sb))) {
			*ret = s;
			return 0;
		}
	}
	return 0;
}

static void describe(const struct signatures *all, const struct signature *fs, struct str *text)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct signature *s = &all->v[i];

		str_addf(text, "%s%s%s", i ? " and " : "", s->type,
		         s->filesystem ? " filesystem"
		         : s->table    ? " partition table"
		                       : "");
		if (s->placed)
			str_addf(text, " (signature at byte %" PRIu64 "%s)", s->at,
			         fs && s != fs ? ", in a file" : "");
	}
	if (!all->n)
		str_add(text, "no known signature");
}

int fsprobe_fd(int fd, const char *name, struct fsprobe *ret, struct err *err)
{
	struct str found AUTO(str_clear) = STR_INIT(sizeof(ret->found) - 1);
	struct fsprobe r = { .kind = FSPROBE_NOTHING };
	const struct signature *fs;
	struct signatures all;
	struct superblock sb;

	if (collect(fd, name, false, &all, err) || find_filesystem(fd, name, &all, &fs, &sb, err))
		return -1;
	if (fs && all.n > 1 &&
	    (collect(fd, name, true, &all, err) || find_filesystem(fd, name, &all, &fs, &sb, err)))
		return -1;
	if (all.n)
		r.kind = fs ? FSPROBE_FILESYSTEM : FSPROBE_FOREIGN;
	r.luks = all.n == 1 && str_eq(all.v[0].type, "crypto_LUKS");
	describe(&all, fs, &found);
	copy(r.found, sizeof(r.found), found.ptr);
	if (fs) {
		copy(r.type, sizeof(r.type), fs->type);
		copy(r.uuid, sizeof(r.uuid), fs->uuid);
		r.size = sb.size;
		r.block_size = sb.block_size;
		memcpy(r.metadata_uuid, sb.metadata_uuid, sizeof(r.metadata_uuid));
		r.devices = sb.devices;
		r.unfinished = sb.unfinished;
	}
	*ret = r;
	return 0;
}

const char *fsprobe_library(void)
{
	const char *version = NULL;

	return blkid_get_library_version(&version, NULL) > 0 ? version : "";
}
