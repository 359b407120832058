/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares flags by tables with one row per flag: the word that the kernel shows and all words that
 * request the flag. The kernel always shows the flags of the mount point, but those of a filesystem
 * only if they differ from its defaults. Does not mount.
 */
#include "node/mount/mount_same.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"

/* EXT4_DELAYED: ext4 with delayed allocation, which is its default except with data=journal. */
enum { EXT = 1, EXT4_DELAYED = 2, XFS = 4, BTRFS = 8, SHARE = 16, ANY = EXT | XFS | BTRFS | SHARE };

static unsigned filesystem_of(const char *fs_type, const struct strs *flags)
{
	if (str_eq(fs_type, "ext4") && !strs_has(flags, "data=journal"))
		return EXT | EXT4_DELAYED;
	return str_has_prefix(fs_type, "ext")        ? EXT
	       : str_eq(fs_type, "xfs")              ? XFS
	       : str_eq(fs_type, "btrfs")            ? BTRFS
	       : str_has_suffix(fs_type, "virtiofs") ? SHARE
	                                             : 0;
}

/* ---- lists of words ---- */

/* Splits options of mountinfo at their commas, except those within quotes. */
static void mount_same_split(const char *options, struct strs *ret)
{
	const char *start = options;
	bool quoted = false;

	for (const char *p = options;; p++) {
		if (*p == '"')
			quoted = !quoted;
		if (*p && (*p != ',' || quoted))
			continue;
		if (p > start)
			strs_addf(ret, "%.*s", (int)(p - start), start);
		if (!*p)
			return;
		start = p + 1;
	}
}

/* Returns true if the word is in the list, whose words are separated by spaces. */
static bool is_one_of(const char *word, const char *list)
{
	size_t n = strlen(word);

	for (const char *at = list; at && *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");

		if (len == n && strncmp(at, word, n) == 0)
			return true;
		at += len;
	}
	return false;
}

/* ---- switches ---- */

/* The request of the last matching flag. */
enum said { SAID_NOTHING, SAID_ON, SAID_OFF };

static enum said what_is_said(const struct strs *flags, const char *on, const char *off)
{
	enum said said = SAID_NOTHING;

	for (size_t i = 0; i < flags->n; i++) {
		if (is_one_of(flags->v[i], on))
			said = SAID_ON;
		else if (is_one_of(flags->v[i], off))
			said = SAID_OFF;
	}
	return said;
}

/*
 * Flags in the options of the mount point. "defaults" does not cancel a flag, because libmount
 * ignores it.
 */
static const struct {
	const char *shown, *off;
} point_rows[] = {
	{ "nosuid", "suid" },           { "nodev", "dev" },
	{ "noexec", "exec" },           { "nodiratime", "diratime" },
	{ "nosymfollow", "symfollow" },
};

/*
 * Flags in the options of the filesystem. SETS: the kernel may show the flag without a request.
 * DROPS: the kernel may not show a requested flag. Such a difference proves nothing; for example,
 * the device does not support discard, or has rotating disks.
 */
enum { SURE, SETS = 1, DROPS = 2 };

static const struct {
	unsigned filesystems;
	const char *shown, *on, *off;
	unsigned kernel;
} switches[] = {
	{ ANY, "sync", "sync", "async", SURE },
	{ ANY, "dirsync", "dirsync", "", SURE },
	{ ANY, "lazytime", "lazytime", "nolazytime", SURE },
	{ EXT, "discard", "discard", "nodiscard", SURE },
	{ EXT, "grpid", "grpid bsdgroups", "nogrpid sysvgroups", SURE },
	{ EXT4_DELAYED, "nodelalloc", "nodelalloc", "delalloc", SURE },
	{ EXT, "nobarrier", "nobarrier barrier=0", "barrier barrier=1", SURE },
	{ EXT, "noauto_da_alloc", "noauto_da_alloc", "auto_da_alloc", SURE },
	{ EXT, "minixdf", "minixdf", "bsddf", SURE },
	{ EXT, "nombcache", "nombcache no_mbcache", "", SURE },
	{ XFS, "discard", "discard", "nodiscard", DROPS },
	{ XFS, "grpid", "grpid bsdgroups", "nogrpid sysvgroups", SURE },
	{ XFS, "inode32", "inode32", "inode64", SURE },
	{ XFS, "wsync", "wsync", "", SETS }, /* sync sets this flag as well */
	{ XFS, "largeio", "largeio", "nolargeio", SURE },
	{ XFS, "filestreams", "filestreams", "", SURE },
	{ XFS, "swalloc", "swalloc", "", SURE },
	{ XFS, "noalign", "noalign", "", SURE },
	/* compress cancels this flag */
	{ BTRFS, "nodatacow", "nodatacow", "datacow", SETS | DROPS },
	{ BTRFS, "autodefrag", "autodefrag", "noautodefrag", SURE },
	{ BTRFS, "noacl", "noacl", "acl", SURE },
	{ BTRFS, "flushoncommit", "flushoncommit", "noflushoncommit", SURE },
	{ BTRFS, "notreelog", "notreelog", "treelog", SURE },
	{ BTRFS, "nobarrier", "nobarrier", "barrier", SURE },
	{ BTRFS, "skip_balance", "skip_balance", "", SURE },
	{ BTRFS, "degraded", "degraded", "", SURE },
	{ BTRFS, "user_subvol_rm_allowed", "user_subvol_rm_allowed", "", SURE },
	{ BTRFS, "enospc_debug", "enospc_debug", "noenospc_debug", SURE },
	{ BTRFS, "discard", "discard discard=sync", "nodiscard discard=async", SETS | DROPS },
	{ BTRFS, "discard=async", "discard=async", "nodiscard discard=sync", SETS | DROPS },
};

/* Flags that prevent journal replay. */
static const struct {
	unsigned filesystems;
	const char *shown, *on;
} replays[] = {
	{ EXT, "norecovery", "noload norecovery" },
	{ XFS, "norecovery", "norecovery" },
	{ BTRFS, "rescue=nologreplay", "rescue=nologreplay nologreplay norecovery" },
};

static bool switch_differs(enum said said, bool shown, unsigned kernel)
{
	if (shown)
		return said == SAID_OFF || (said == SAID_NOTHING && !(kernel & SETS));
	return said == SAID_ON && !(kernel & DROPS);
}

/* ---- values ---- */

static const struct {
	unsigned filesystems;
	/* default value; NULL: it is unknown, so only a shown value is compared */
	const char *name, *otherwise;
} values[] = {
	{ EXT, "commit=", "5" },
	{ EXT, "data=", "ordered" },
	{ EXT, "errors=", NULL },
	{ EXT, "inode_readahead_blks=", "32" },
	{ EXT, "max_batch_time=", "15000" },
	{ EXT, "min_batch_time=", "0" },
	{ EXT, "max_dir_size_kb=", "0" },
	{ XFS, "allocsize=", "" },
	{ XFS, "logbufs=", NULL },
	{ XFS, "logbsize=", NULL },
	{ BTRFS, "commit=", "30" },
	{ BTRFS, "metadata_ratio=", "0" },
	{ ANY, "context=", "" },
	{ ANY, "fscontext=", "" },
	{ ANY, "defcontext=", "" },
};

/* Returns the value of the last flag of this name, or NULL if there is no such flag. */
static const char *value_of(const struct strs *flags, const char *name)
{
	for (size_t i = flags->n; i > 0; i--)
		if (str_has_prefix(flags->v[i - 1], name))
			return flags->v[i - 1] + strlen(name);
	return NULL;
}

/* Converts "64k" to bytes; returns false if it is not a size. */
static bool mount_same_size(const char *text, uint64_t *ret)
{
	static const char units[] = "kmg";
	char *end = NULL;
	const char *unit;

	*ret = strtoull(text, &end, 10);
	if (end == text)
		return false;
	unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (unit) {
		*ret <<= 10 * (unit - units + 1);
		end++;
	}
	return *end == '\0';
}

/*
 * Returns the length of a label's user, role and type. The level is not compared, because the
 * kernel normalizes it (c0,c1,c2 as c0.c2).
 */
static size_t label_length(const char *label)
{
	size_t n = 0;

	for (int colons = 0; label[n] && (label[n] != ':' || ++colons < 3);)
		n++;
	return n;
}

static bool same_label(const char *a, const char *b)
{
	size_t n;

	a += *a == '"';
	b += *b == '"';
	n = label_length(a);
	return n == label_length(b) && strncmp(a, b, n) == 0;
}

static bool same_value(const char *name, const char *a, const char *b)
{
	uint64_t x, y;

	if (str_has_suffix(name, "context="))
		return same_label(a, b);
	if (mount_same_size(a, &x) && mount_same_size(b, &y))
		return x == y;
	return str_eq(a, b);
}

static bool value_differs(size_t row, const struct strs *flags, const struct strs *shown)
{
	const char *name = values[row].name, *otherwise = values[row].otherwise;
	const char *asked = value_of(flags, name), *is = value_of(shown, name);

	if (!otherwise)
		return asked && is && !same_value(name, asked, is);
	/* commit=0 requests the default. */
	if (!asked || (str_eq(name, "commit=") && str_eq(asked, "0")))
		asked = otherwise;
	return !same_value(name, asked, is ? is : otherwise);
}

/* ---- the comparison ---- */

/*
 * Compares the atime policy, for which the flags exclude each other (noatime, relatime,
 * strictatime). Contradictory flags are not compared.
 */
static bool atime_differs(const struct strs *flags, const struct strs *shown)
{
	const char *want = "relatime";
	unsigned said = 0;

	for (size_t i = 0; i < flags->n; i++) {
		if (!is_one_of(flags->v[i], "atime noatime relatime norelatime strictatime "
		                            "nostrictatime"))
			continue;
		if (said++ || str_eq(flags->v[i], "norelatime"))
			return false;
		if (str_eq(flags->v[i], "noatime") || str_eq(flags->v[i], "strictatime"))
			want = flags->v[i];
	}
	if (str_eq(want, "strictatime"))
		return strs_has(shown, "noatime") || strs_has(shown, "relatime");
	return !strs_has(shown, want);
}

static bool point_differs(const struct strs *flags, const struct mount *m, const char **what)
{
	struct strs shown AUTO(strs_clear) = STRS_INIT;

	mount_same_split(m->options, &shown);
	for (size_t i = 0; i < ARRAY_LEN(point_rows); i++) {
		const char *name = point_rows[i].shown;

		*what = name;
		if (switch_differs(what_is_said(flags, name, point_rows[i].off),
		                   strs_has(&shown, name), SURE))
			return true;
	}
	*what = "noatime, relatime or strictatime";
	return atime_differs(flags, &shown);
}

static bool replay_differs(const struct mount_asked *asked, unsigned fs, const struct strs *shown,
                           const char **what)
{
	for (size_t i = 0; i < ARRAY_LEN(replays); i++) {
		enum said said = what_is_said(asked->flags, replays[i].on, "");

		*what = replays[i].shown;
		if ((replays[i].filesystems & fs) && !asked->no_replay &&
		    switch_differs(said, strs_has(shown, replays[i].shown), SURE))
			return true;
	}
	return false;
}

bool mount_flags_differ(const struct mount_asked *asked, const struct mount *m, const char **what)
{
	struct strs shown AUTO(strs_clear) = STRS_INIT;
	unsigned fs = filesystem_of(m->fs_type, asked->flags);

	mount_same_split(m->fs_options, &shown);
	if (point_differs(asked->flags, m, what) || replay_differs(asked, fs, &shown, what))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
		enum said said = what_is_said(asked->flags, switches[i].on, switches[i].off);

		*what = switches[i].shown;
		if (!(switches[i].filesystems & fs) ||
		    (switches[i].filesystems != ANY && asked->superblock_has_flags))
			continue;
		if (switch_differs(said, strs_has(&shown, *what), switches[i].kernel))
			return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		*what = values[i].name;
		if (!(values[i].filesystems & fs) ||
		    (values[i].filesystems != ANY && asked->superblock_has_flags))
			continue;
		if (value_differs(i, asked->flags, &shown))
			return true;
	}
	return false;
}

bool ext_superblock_has_flags(int fd)
{
	/* EXT4_DEFM_XATTR_USER, _ACL, _JMODE_ORDERED: the defaults of mke2fs and of the kernel. */
	const uint32_t usual = 0x4 | 0x8 | 0x40;
	const off_t superblock = 1024, mount_opts = 0x200, default_mount_opts = 0x100;
	unsigned char bits[4];
	char own;

	if (pread(fd, bits, sizeof(bits), superblock + default_mount_opts) != sizeof(bits) ||
	    pread(fd, &own, 1, superblock + mount_opts) != 1)
		return true;
	return own || (((uint32_t)bits[3] << 24 | (uint32_t)bits[2] << 16 | (uint32_t)bits[1] << 8 |
	                bits[0]) &
	               ~usual);
}
