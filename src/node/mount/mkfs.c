/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs mkfs and grows filesystems, with argument lists from a table with one row per filesystem.
 * Tools get the device as a descriptor that the driver holds open (SPAWN_FD_PATH), so they use the
 * checked device even if another disk has got its name in the meantime. Discard is always off,
 * because a blank volume has nothing to discard, and discard takes most of the time on a remote
 * disk. Features that the running kernel cannot mount are disabled (mkfs_features.h). The block
 * size is at most 4096 bytes: on a kernel with pages of 64 KiB (arm64), mkfs.btrfs 6.6 and older
 * would choose a larger one, which other nodes could not mount. No state, any thread.
 *
 * Sources: mke2fs(8), mkfs.xfs(8), mkfs.btrfs(8), resize2fs(8), btrfs-filesystem(8), xfs_format.h.
 */
#include "node/mount/mkfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "common/str.h"
#include "node/mount/mkfs_features.h"
#include "node/mount/xfs_grow.h"
#include "volume/filesystem_size.h"

#define BLOCK_SIZE 4096

/*
 * For smaller filesystems, mke2fs chooses the block size: 1024 bytes, or the device's logical block
 * size.
 */
static void ext_options(struct strs *argv, const struct mkfs_params *p, uint64_t size)
{
	if (p->block_size)
		strs_addf(argv, "-b%llu", (unsigned long long)p->block_size);
	else if (size >= FILESYSTEM_LARGE_EXT)
		strs_addf(argv, "-b%d", BLOCK_SIZE);
	if (p->inode_size)
		strs_addf(argv, "-I%llu", (unsigned long long)p->inode_size);
	if (p->bytes_per_inode)
		strs_addf(argv, "-i%llu", (unsigned long long)p->bytes_per_inode);
	if (p->number_of_inodes)
		strs_addf(argv, "-N%llu", (unsigned long long)p->number_of_inodes);
	if (p->ext4_bigalloc)
		strs_add(argv, "-Obigalloc");
	if (p->ext4_cluster_size)
		strs_addf(argv, "-C%llu", (unsigned long long)p->ext4_cluster_size);
}

static void xfs_options(struct strs *argv, const struct mkfs_params *p,
                        uint64_t size __attribute__((unused)))
{
	strs_addf(argv, "-bsize=%llu",
	          (unsigned long long)(p->block_size ? p->block_size : BLOCK_SIZE));
	if (p->inode_size)
		strs_addf(argv, "-isize=%llu", (unsigned long long)p->inode_size);
}

static void no_options(struct strs *argv __attribute__((unused)),
                       const struct mkfs_params *p __attribute__((unused)),
                       uint64_t size __attribute__((unused)))
{
}

#define EXT_BLOCK 4096ULL /* block size that mke2fs(8) uses for a large filesystem */

static const struct maker {
	const char *fs_type;
	const char *argv[6];
	void (*options)(struct strs *argv, const struct mkfs_params *p, uint64_t size);
	bool takes_params;
	const char *grow[5]; /* %d: device, %m: its mount point; empty: use xfs_grow() */
} makers[] = {
	{ "ext4",
	  { "mkfs.ext4", "-q", "-m0", "-Enodiscard" },
	  ext_options,
	  true,
	  { "resize2fs", "%d" } },
	{ "ext3",
	  { "mkfs.ext3", "-q", "-m0", "-Enodiscard" },
	  ext_options,
	  true,
	  { "resize2fs", "%d" } },
	{ "xfs", { "mkfs.xfs", "-q", "-K" }, xfs_options, true, { NULL } },
	{ "btrfs",
	  { "mkfs.btrfs", "-q", "-K", "-s4096" },
	  no_options,
	  false,
	  { "btrfs", "filesystem", "resize", "max", "%m" } },
};

static const struct maker *maker_of(const char *fs_type, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(makers); i++)
		if (str_eq(makers[i].fs_type, fs_type))
			return &makers[i];
	err_set(err, ERR_INVALID, "filesystem %s is not one that this driver creates", fs_type);
	return NULL;
}

/* Adds a word; joins lists of features, because the tools use only the last -O. */
static void add_word(struct strs *argv, const char *word)
{
	for (size_t i = 0; i < argv->n; i++) {
		char *old = argv->v[i];

		if (!str_has_prefix(word, "-O") || !str_has_prefix(old, "-O"))
			continue;
		argv->v[i] = xasprintf("%s,%s", old, word + strlen("-O"));
		free(old);
		return;
	}
	strs_add(argv, word);
}

static int build_argv(const struct maker *m, const struct mkfs_params *params, int fd,
                      struct strs *argv, struct err *err)
{
	off_t size = lseek(fd, 0, SEEK_END); /* no other code uses this descriptor's file offset */
	struct strs off AUTO(strs_clear) = STRS_INIT;
	struct utsname kernel;

	if (uname(&kernel) < 0)
		return err_sys(err, errno, "read the kernel's release");
	if (mkfs_features_off(m->fs_type, m->argv[0], kernel.release, &off, err))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(m->argv) && m->argv[i]; i++)
		strs_add(argv, m->argv[i]);
	m->options(argv, params, size > 0 ? (uint64_t)size : 0);
	for (size_t i = 0; i < off.n; i++)
		add_word(argv, off.v[i]);
	strs_add(argv, SPAWN_FD_PATH);
	return 0;
}

static bool any_params(const struct mkfs_params *p)
{
	return p->block_size || p->inode_size || p->bytes_per_inode || p->number_of_inodes ||
	       p->ext4_cluster_size || p->ext4_bigalloc;
}

int mkfs_check(const char *fs_type, uint64_t size, const struct mkfs_params *params,
               struct err *err)
{
	const struct maker *m = maker_of(fs_type, err);
	char have[64], need[64];
	uint64_t least;

	if (!m)
		return -1;
	if (!m->takes_params && any_params(params))
		return err_set(err, ERR_INVALID, "%s does not support mkfs keys", fs_type);
	least = filesystem_least_bytes(fs_type, params);
	if (str_eq(fs_type, "ext3") &&
	    size / (params->block_size ? (uint64_t)params->block_size : EXT_BLOCK) > UINT32_MAX)
		return err_set(
			err, ERR_INVALID,
			"ext3 has at most %s with blocks of this size, the volume has %s; "
			"next: use ext4 (csi.storage.k8s.io/fstype of the StorageClass)",
			str_bytes(UINT32_MAX * (params->block_size ? (uint64_t)params->block_size
		                                                   : EXT_BLOCK),
		                  need),
			str_bytes(size, have));
	if (size < least)
		return err_set(err, ERR_INVALID, "%s%s needs at least %s, the volume has %s",
		               fs_type, any_params(params) ? " with these keys" : "",
		               str_bytes(least, need), str_bytes(size, have));
	return 0;
}

/*
 * Returns the line with the reason: the last line that starts with one word and a colon
 * ("resize2fs:", "ERROR:"), or else the last line. (A tool's stdout is buffered, so it appears
 * after its stderr.)
 */
static const char *reason(struct str *output)
{
	const char *found = NULL;
	char *usage = strcasestr(output->ptr, "\nusage:");

	if (usage) { /* the usage message follows the reason */
		*usage = '\0';
		output->len = (size_t)(usage - output->ptr);
	}

	for (char *line = output->ptr, *end; *line; line = end) {
		size_t n = strcspn(line, "\n");
		const char *colon = memchr(line, ':', n);

		end = line + n + (line[n] == '\n');
		if (colon && colon > line && !memchr(line, ' ', (size_t)(colon - line)) &&
		    !memchr(line, '=', (size_t)(colon - line)) && line[0] != '/')
			found = line;
	}
	if (!found)
		return spawn_last_line(output);
	output->ptr[(size_t)(found - output->ptr) + strcspn(found, "\n")] = '\0';
	return found;
}

/* Runs a tool to completion. If it fails, the error has the reason that it printed. */
static int mkfs_run_tool(const struct strs *argv, int fd, struct deadline d, const char *name,
                         struct err *err)
{
	struct str output AUTO(str_clear) = STR_INIT(LIMIT_SPAWN_OUTPUT);
	int rc = spawn_run_fd(argv, fd, d, &output, err);

	if (rc < 0)
		return err_wrap(err, "%s of %s", argv->v[0], name);
	if (rc > 0)
		return err_set(err, ERR_INTERNAL, "%s of %s failed (exit status %d): %s",
		               argv->v[0], name, rc, reason(&output));
	return 0;
}

int mkfs_run(const char *fs_type, const struct mkfs_params *params, int fd, const char *name,
             struct err *err)
{
	const struct maker *m = maker_of(fs_type, err);
	struct strs argv AUTO(strs_clear) = STRS_INIT;

	if (!m)
		return -1;
	if (build_argv(m, params, fd, &argv, err))
		return -1;
	return mkfs_run_tool(&argv, fd, deadline_never(), name, err);
}

int mkfs_forget_unfinished(int fd, const char *name, struct err *err)
{
	enum { IN_PROGRESS = 126 };
	uint8_t sb[4096];
	int rw AUTO(fd) = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rw = open(path, O_RDWR | O_EXCL | O_CLOEXEC);
	if (rw < 0 || pread(rw, sb, sizeof(sb), 0) != (ssize_t)sizeof(sb))
		return err_sys(err, errno, "open the unfinished filesystem on %s", name);
	if (memcmp(sb, "XFSB", 4) != 0 || sb[IN_PROGRESS] == 0)
		return err_set(err, ERR_PRECONDITION, "%s: the xfs on it is not an unfinished one",
		               name);
	memset(sb, 0, sizeof(sb));
	if (pwrite(rw, sb, sizeof(sb), 0) != (ssize_t)sizeof(sb) || fsync(rw) < 0)
		return err_sys(err, errno, "clear the unfinished filesystem on %s", name);
	return 0;
}

int fs_grow(const char *fs_type, const char *device, const char *mounted_at, struct deadline d,
            struct err *err)
{
	const struct maker *m = maker_of(fs_type, err);
	struct strs argv AUTO(strs_clear) = STRS_INIT;

	if (!m)
		return -1;
	if (!m->grow[0])
		return xfs_grow(device, mounted_at, err);
	for (size_t i = 0; i < ARRAY_LEN(m->grow) && m->grow[i]; i++)
		strs_add(&argv, str_eq(m->grow[i], "%d")   ? device
		                : str_eq(m->grow[i], "%m") ? mounted_at
		                                           : m->grow[i]);
	return mkfs_run_tool(&argv, -1, d, mounted_at, err);
}
