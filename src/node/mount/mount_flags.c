/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of mount flags. Quotes are accepted only in *context=, because the parsers of the
 * kernel and of libmount interpret them differently: usrjquota="a,errors=panic" is one flag for one
 * parser and two for the other. mount.c handles the mounts.
 */
#include "node/mount/mount_flags.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"

enum { EXT = 1, XFS = 2, BTRFS = 4, VIRTIOFS = 8, DISK = EXT | XFS | BTRFS, ANY = DISK | VIRTIOFS };

static unsigned mount_flags_filesystem(const char *fs_type)
{
	static const struct {
		const char *fs_type;
		unsigned bit;
	} rows[] = {
		{ "", DISK },   { "ext4", EXT },    { "ext3", EXT },
		{ "xfs", XFS }, { "btrfs", BTRFS }, { "virtiofs", VIRTIOFS },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i].fs_type, fs_type ? fs_type : ""))
			return rows[i].bit;
	return 0;
}

/*
 * Flags that a user may want, and the reasons why they are rejected. A name that ends in '=' or '.'
 * is a prefix.
 */
static const struct {
	const char *name, *why;
} refused_flags[] = {
	{ "bind", "the driver makes its own bind mounts" },
	{ "rbind", "the driver makes its own bind mounts" },
	{ "move", "it would move another mount" },
	{ "remount", "a staged volume is not remounted" },
	{ "loop", "a volume is a block device, not an image file" },
	{ "loop=", "a volume is a block device, not an image file" },
	{ "offset=", "it would mount another part of the device" },
	{ "sizelimit=", "it would mount another part of the device" },
	{ "sb=", "it would use a superblock other than the one that was checked" },
	{ "device=", "it would add another device to the filesystem" },
	{ "journal_dev=", "it would use another device" },
	{ "journal_path=", "it would use another device" },
	{ "logdev=", "it would use another device" },
	{ "rtdev=", "it would use another device" },
	{ "errors=panic", "a broken volume would stop the whole host" },
	{ "fatal_errors=panic", "a broken volume would stop the whole host" },
	{ "abort", "it makes the filesystem fail at once" },
	{ "subvol=", "the whole of a btrfs is mounted: name a directory by subPath in the pod" },
	{ "subvolid=", "the whole of a btrfs is mounted: name a directory by subPath in the pod" },
	{ "user", "it sets permissions for mount(8), which is not used" },
	{ "user=", "it sets permissions for mount(8), which is not used" },
	{ "users", "it sets permissions for mount(8), which is not used" },
	{ "owner", "it sets permissions for mount(8), which is not used" },
	{ "group", "it sets permissions for mount(8), which is not used" },
	{ "helper=", "no helper programs are run" },
	{ "uhelper=", "no helper programs are run" },
	{ "verity.", "not supported" },
	{ "X-mount.", "it is an instruction to mount(8), which is not used" },
	{ "x-mount.", "it is an instruction to mount(8), which is not used" },
	{ "shared", "kubelet decides how mounts propagate" },
	{ "rshared", "kubelet decides how mounts propagate" },
	{ "slave", "kubelet decides how mounts propagate" },
	{ "rslave", "kubelet decides how mounts propagate" },
	{ "private", "kubelet decides how mounts propagate" },
	{ "rprivate", "kubelet decides how mounts propagate" },
	{ "unbindable", "the volume could not be published" },
	{ "runbindable", "the volume could not be published" },
};

/* The allow-lists, in the format of mount_flags_listed(). */
static const struct {
	unsigned filesystems;
	const char *flags;
} allowed_flags[] = {
	{ ANY,
	  "async atime auto context= defaults defcontext= dev diratime dirsync exec fscontext= "
	  "iversion lazytime loud mand _netdev noatime noauto nodev nodiratime noexec nofail "
	  "noiversion nolazytime nomand norelatime nostrictatime nosuid nosymfollow nouser relatime "
	  "ro rootcontext= rw silent strictatime suid sync x-" },
	{ EXT,
	  "acl auto_da_alloc barrier barrier=0 barrier=1 block_validity bsddf bsdgroups commit= "
	  "data=journal data=ordered data=writeback data_err=abort data_err=ignore dax dax=always "
	  "dax=inode dax=never debug delalloc dioread_lock dioread_nolock discard errors=continue "
	  "errors=remount-ro grpid grpjquota= grpquota i_version init_itable init_itable= "
	  "inlinecrypt inode_readahead_blks= jqfmt=vfsold jqfmt=vfsv0 jqfmt=vfsv1 "
	  "journal_async_commit journal_checksum journal_ioprio= max_batch_time= max_dir_size_kb= "
	  "min_batch_time= minixdf noacl noauto_da_alloc nobarrier noblock_validity nodelalloc "
	  "nodiscard nogrpid noinit_itable nojournal_checksum noload nombcache noquota norecovery "
	  "nouid32 nouser_xattr oldalloc orlov prjquota quota resgid= resuid= stripe= sysvgroups "
	  "user_xattr usrjquota= usrquota" },
	{ XFS,
	  "allocsize= attr2 bsdgroups dax dax=always dax=inode dax=never discard filestreams "
	  "gqnoenforce gquota grpid grpquota ikeep inode32 inode64 largeio logbsize= logbufs= "
	  "noalign noattr2 nodiscard nogrpid noikeep nolargeio noquota norecovery nouuid "
	  "pqnoenforce pquota prjquota quota sunit= swalloc swidth= sysvgroups uqnoenforce uquota "
	  "usrquota wsync" },
	{ BTRFS,
	  "acl autodefrag barrier clear_cache commit= compress compress-force compress-force= "
	  "compress= datacow datasum degraded discard discard=async discard=sync enospc_debug "
	  "fatal_errors=bug flushoncommit max_inline= metadata_ratio= noacl noautodefrag nobarrier "
	  "nodatacow nodatasum nodiscard noenospc_debug noflushoncommit nologreplay norecovery "
	  "nospace_cache nossd nossd_spread notreelog rescan_uuid_tree rescue= skip_balance "
	  "space_cache space_cache=v1 space_cache=v2 ssd ssd_spread thread_pool= treelog "
	  "usebackuproot user_subvol_rm_allowed" },
	{ VIRTIOFS, "dax dax=always dax=inode dax=never" },
};

static bool flag_matches(const char *flag, const char *name, size_t n)
{
	return strncmp(flag, name, n) == 0 &&
	       ((n && strchr("=.-", name[n - 1])) || flag[n] == '\0');
}

static const char *why_refused(const char *flag)
{
	for (size_t i = 0; i < ARRAY_LEN(refused_flags); i++)
		if (flag_matches(flag, refused_flags[i].name, strlen(refused_flags[i].name)))
			return refused_flags[i].why;
	return NULL;
}

static bool in_list(const char *flag, const char *list)
{
	for (const char *at = list; *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		if (flag_matches(flag, at, n))
			return true;
		at += n;
	}
	return false;
}

static bool is_allowed(const char *flag, unsigned filesystems)
{
	for (size_t i = 0; i < ARRAY_LEN(allowed_flags); i++)
		if ((allowed_flags[i].filesystems & filesystems) &&
		    in_list(flag, allowed_flags[i].flags))
			return true;
	return false;
}

const char *mount_flags_listed(const char *fs_type)
{
	for (size_t i = 0; i < ARRAY_LEN(allowed_flags); i++)
		if (allowed_flags[i].filesystems ==
		    (*fs_type ? mount_flags_filesystem(fs_type) : ANY))
			return allowed_flags[i].flags;
	return "";
}

/* Returns the length of a leading "context=" or similar name, or 0. */
static size_t context_prefix(const char *flag)
{
	static const char *const names[] = { "context=", "fscontext=", "defcontext=",
		                             "rootcontext=" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_has_prefix(flag, names[i]))
			return strlen(names[i]);
	return 0;
}

/*
 * Returns true if the text has only characters that no parser treats specially, and those in
 * `more`. Commas and quotes are left to the caller.
 */
static bool is_plain(const char *text, size_t n, const char *more)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_-=:./+@", text[i]) &&
		    !strchr(more, text[i]))
			return false;
	return true;
}

static int check_characters(const char *flag, struct err *err)
{
	size_t n = strlen(flag), from = context_prefix(flag);

	if (from && flag[from] == '"') {
		if (n < from + 2 || flag[n - 1] != '"')
			return err_set(err, ERR_INVALID,
			               "mount flag %s is refused: its quote is not closed", flag);
		if (is_plain(flag + from + 1, n - from - 2, ","))
			return 0;
	} else if (is_plain(flag, n, "")) {
		return 0;
	}
	return err_set(err, ERR_INVALID,
	               "mount flag %s is refused: a flag has letters, digits and _-=:./+@ only; "
	               "double quotes are accepted only around the whole value of context=",
	               flag);
}

static int check_flag(const char *flag, const char *fs_type, struct err *err)
{
	const char *why = why_refused(flag);

	if (check_characters(flag, err))
		return -1;
	if (why)
		return err_set(err, ERR_INVALID, "mount flag \"%s\" is refused: %s", flag, why);
	if (is_allowed(flag, mount_flags_filesystem(fs_type)))
		return 0;
	return err_set(
		err, ERR_INVALID,
		"mount flag \"%s\" is refused: it is not an option for %s "
		"(docs/reference/parameters.md, \"Mount options\"); correct mountOptions in the "
		"StorageClass and in the PersistentVolume",
		flag, str_empty(fs_type) ? "any filesystem of this driver" : fs_type);
}

/* Returns the end of the flag that starts here: a comma, except inside a quoted context. */
static const char *flag_end(const char *start)
{
	size_t from = context_prefix(start);
	const char *close = from && start[from] == '"' ? strchr(start + from + 1, '"') : NULL;

	return (close ? close : start) + strcspn(close ? close : start, ",");
}

int mount_flags_check(const char *const *flags, size_t n, const char *fs_type, struct strs *ret,
                      struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const char *at = flags[i];

		while (*at) {
			const char *end = flag_end(at);
			char *one AUTO(free) = xstrndup(at, (size_t)(end - at));

			if (!str_empty(one) && check_flag(one, fs_type, err))
				return -1;
			if (!str_empty(one))
				strs_add(ret, one);
			at = end + (*end == ',');
		}
	}
	return 0;
}

int mount_flags_check_for(const struct strs *flags, const char *fs_type, struct err *err)
{
	for (size_t i = 0; i < flags->n; i++)
		if (check_flag(flags->v[i], fs_type, err))
			return -1;
	return 0;
}

void mount_flags_add_safe(const char *fs_type, struct strs *flags)
{
	unsigned filesystem = mount_flags_filesystem(fs_type);
	bool says_errors = false;

	for (size_t i = 0; i < flags->n; i++)
		says_errors |= str_has_prefix(flags->v[i], "errors=");
	if (filesystem == EXT && !says_errors)
		strs_add(flags, "errors=remount-ro");
	if (filesystem == BTRFS && !strs_has(flags, "subvolid=5"))
		strs_add(flags, "subvolid=5");
}
