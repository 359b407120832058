/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes to mounts. libmount turns option lists into mount(2)'s flags; one context per call, never
 * shared (its objects are not thread-safe). Helpers (but for shares), fstab, canonicalising and the
 * fallback to read-only of mount(8) are off. Binds, remounts and unmounts are one system call each
 * and are made directly: libmount's versions look the target up, and looking at a dead mount hangs.
 * Does not decide what may be mounted where.
 */
#include "node/mount/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/cleanup.h"
#include "common/thread.h"
#include "node/mount/mount_option.h"

DEFINE_AUTO(struct libmnt_context *, mnt_free_context);

/* ---- changes ---- */

static enum err_code code_of_mount(int sys)
{
	if (sys == EUCLEAN || sys == EBADMSG)
		return ERR_DATA_LOSS; /* "Structure needs cleaning": the filesystem is damaged */
	return sys ? err_code_from_errno(sys) : ERR_INTERNAL;
}

static const char *repair_command(const char *fs_type)
{
	return str_eq(fs_type, "xfs")     ? "xfs_repair"
	       : str_eq(fs_type, "btrfs") ? "btrfs check"
	                                  : "e2fsck -f";
}

/*
 * The first option that the filesystem refuses, with the kernel's words, or "". Only the part of an
 * option that mount(2) has no flag for reaches the filesystem; context= is SELinux's.
 */
static void find_refused(const char *fs_type, const struct strs *options, struct str *ret)
{
	struct str why AUTO(str_clear) = STR_INIT(300);

	for (size_t i = 0; i < options->n; i++) {
		char *of_fs AUTO(free) = NULL;

		if (mnt_split_optstr(options->v[i], NULL, NULL, &of_fs, 0, 0) || str_empty(of_fs) ||
		    strstr(of_fs, "context=") || !mount_option_is_refused(fs_type, of_fs, &why))
			continue;
		str_addf(ret, "%s does not take the mount option \"%s\"", fs_type, of_fs);
		if (why.len)
			str_addf(ret, " (%s)", why.ptr);
		return;
	}
}

/*
 * EINVAL means a wrong option as well as a superblock that the kernel cannot use, and mount(8)'s
 * text for it begins with a bad superblock. The caller has read the superblock, so the options come
 * first here.
 */
static int mount_explain_options(const char *device, const char *fs_type,
                                 const struct strs *options, struct err *err)
{
	struct str refused AUTO(str_clear) = STR_INIT(500);
	char *list AUTO(free) = strs_join(options, ",");

	find_refused(fs_type, options, &refused);
	if (!refused.len)
		str_addf(
			&refused,
			"the kernel does not take this %s with the mount options \"%s\"; dmesg says "
			"whether an option or a feature of the filesystem is the reason",
			fs_type, list);
	err_set(err, ERR_INVALID,
	        "mount %s: %s. Options are corrected in mountOptions of the StorageClass for new "
	        "volumes, and of the PersistentVolume for this one",
	        device, refused.ptr);
	err->sys = EINVAL;
	return -1;
}

/* libmount knows what the errno means for this filesystem: its text is used, with our code. */
static int mount_explain(struct libmnt_context *cxt, int rc, const char *device, const char *target,
                         const char *fs_type, struct err *err)
{
	char text[400] = "";
	int sys = mnt_context_syscall_called(cxt) ? mnt_context_get_syscall_errno(cxt) : 0;

	mnt_context_get_excode(cxt, rc, text, sizeof(text));
	if (str_empty(text))
		return err_sys(err, sys ? sys : EINVAL, "mount %s (%s) on %s", device, fs_type,
		               target);
	err_set(err, code_of_mount(sys), "mount %s (%s) on %s: %s", device, fs_type, target, text);
	err->sys = sys;
	if (err->code == ERR_DATA_LOSS)
		err_wrap(err,
		         "the filesystem is damaged; it is not repaired by itself (by hand: %s %s)",
		         repair_command(fs_type), device);
	return -1;
}

static int mount_prepare(struct libmnt_context *cxt, const char *source, const char *target,
                         const char *fs_type, const struct strs *options, struct err *err)
{
	char *list AUTO(free) = strs_join(options, ",");

	mnt_context_disable_helpers(cxt, 1);
	mnt_context_disable_canonicalize(cxt, 1);
	mnt_context_disable_mtab(cxt, 1);
	mnt_context_set_optsmode(cxt, MNT_OMODE_NOTAB);
	mnt_context_enable_rwonly_mount(cxt, 1);
	mnt_context_set_source(cxt, source);
	mnt_context_set_target(cxt, target);
	mnt_context_set_fstype(cxt, fs_type);
	if (!str_empty(list) && mnt_context_set_options(cxt, list))
		return err_set(err, ERR_INVALID, "mount %s on %s: options %s cannot be read",
		               source, target, list);
	return 0;
}

int mount_filesystem(const char *device, const char *target, const char *fs_type,
                     const struct strs *options, struct err *err)
{
	struct libmnt_context *cxt AUTO(mnt_free_context) = mnt_new_context();
	int rc;

	if (!cxt)
		abort();
	if (mount_prepare(cxt, device, target, fs_type, options, err))
		return -1;
	thread_rest(); /* it may hang */
	rc = mnt_context_mount(cxt);
	if (options->n && rc && mnt_context_syscall_called(cxt) &&
	    mnt_context_get_syscall_errno(cxt) == EINVAL)
		return mount_explain_options(device, fs_type, options, err);
	if (rc || !mnt_context_get_status(cxt))
		return mount_explain(cxt, rc, device, target, fs_type, err);
	return 0;
}

/* mount(2) has failed, or there is neither such a filesystem nor a helper. */
static int explain_share(struct libmnt_context *cxt, int rc, const char *tag, const char *target,
                         const char *fs_type, const struct strs *options, struct err *err)
{
	struct str refused AUTO(str_clear) = STR_INIT(500);
	int sys = mnt_context_syscall_called(cxt) ? mnt_context_get_syscall_errno(cxt) : 0;

	if (sys == ENODEV)
		return err_set(err, ERR_PRECONDITION,
		               "this host's kernel has no filesystem \"%s\"%s: see "
		               "--node-virtiofs-filesystem-type, and for virtiofs the kernel's "
		               "option CONFIG_VIRTIO_FS and its module virtiofs",
		               fs_type,
		               str_eq(fs_type, "virtiofs") ? ""
		                                           : ", and there is no helper for it");
	if (sys != EINVAL)
		return mount_explain(cxt, rc, tag, target, fs_type, err);
	find_refused(fs_type, options, &refused);
	return refused.len ? mount_explain_options(tag, fs_type, options, err) : MOUNT_NO_TAG;
}

int mount_share(const char *tag, const char *target, const char *fs_type,
                const struct strs *options, struct err *err)
{
	struct libmnt_context *cxt AUTO(mnt_free_context) = mnt_new_context();
	const char *name, *value;
	int rc;

	if (!cxt)
		abort();
	if (mount_prepare(cxt, tag, target, fs_type, options, err))
		return -1;
	if (mnt_fs_get_tag(mnt_context_get_fs(cxt), &name, &value) == 0)
		return err_set(err, ERR_INVALID,
		               "the tag %s has the form of a disk's label, by which mount(8) looks "
		               "for a disk",
		               tag);
	mnt_context_disable_helpers(cxt, str_eq(fs_type, "virtiofs"));
	thread_rest(); /* it may hang */
	rc = mnt_context_mount(cxt);
	if (mnt_context_helper_executed(cxt))
		return mnt_context_get_helper_status(cxt) ? MOUNT_NO_TAG : 0;
	if (rc || !mnt_context_get_status(cxt))
		return explain_share(cxt, rc, tag, target, fs_type, options, err);
	return 0;
}

int mount_bind(const char *source, const char *target, struct err *err)
{
	if (mount(source, target, NULL, MS_BIND, NULL) < 0)
		return err_sys(err, errno, "bind %s to %s", source, target);
	return 0;
}

/* EPERM: container runtimes answer this for system calls that they do not know. */
static bool is_unsupported(int errnum)
{
	return errnum == ENOSYS || errnum == EPERM;
}

int mount_tree_open(const char *source, bool read_only, int *ret_fd, int *ret_id, struct err *err)
{
	struct mount_attr attr = { .attr_set = read_only ? MOUNT_ATTR_RDONLY : 0 };
	int at AUTO(fd) = open(source, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int fd AUTO(fd) = -1;
	struct statx stx;

	if (at < 0)
		return err_sys(err, errno, "bind %s", source);
	*ret_id = statx(at, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) == 0 &&
	                          (stx.stx_mask & STATX_MNT_ID)
	                  ? (int)stx.stx_mnt_id
	                  : 0;
	fd = open_tree(at, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0 && is_unsupported(errno))
		return MOUNT_UNSUPPORTED;
	if (fd < 0)
		return err_sys(err, errno, "bind %s", source);
	if (read_only && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return is_unsupported(errno)
		               ? MOUNT_UNSUPPORTED
		               : err_sys(err, errno, "make the bind of %s read-only", source);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int mount_tree_put(int fd, const char *source, const char *target, struct err *err)
{
	if (move_mount(fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) == 0)
		return 0;
	return is_unsupported(errno) ? MOUNT_UNSUPPORTED
	                             : err_sys(err, errno, "bind %s to %s", source, target);
}

int mount_set_read_only(const char *target, struct err *err)
{
	static const struct {
		unsigned long st, ms;
	} kept[] = {
		{ ST_NOSUID, MS_NOSUID },         { ST_NODEV, MS_NODEV },
		{ ST_NOEXEC, MS_NOEXEC },         { ST_NOATIME, MS_NOATIME },
		{ ST_NODIRATIME, MS_NODIRATIME }, { ST_RELATIME, MS_RELATIME },
	};
	unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
	struct statvfs now;

	if (statvfs(target, &now) < 0)
		return err_sys(err, errno, "statvfs %s", target);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (now.f_flag & kept[i].st)
			flags |= kept[i].ms;
	if (mount(NULL, target, NULL, flags, NULL) < 0)
		return err_sys(err, errno, "make %s read-only", target);
	return 0;
}

int mount_remove(const char *target, bool lazy, struct err *err)
{
	thread_rest(); /* it may hang */
	if (umount2(target, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EINVAL || errno == ENOENT)
		return MOUNT_ABSENT;
	return err_sys(err, errno, "unmount %s", target);
}

bool mount_errno_is_dead(int errnum)
{
	return errnum == EIO || errnum == ENODEV || errnum == ENXIO || errnum == ESTALE ||
	       errnum == ENOTCONN || errnum == ECONNABORTED || errnum == ESHUTDOWN ||
	       errnum == EUCLEAN;
}

const char *mount_library(void)
{
	const char *version = NULL;

	return mnt_get_library_version(&version) > 0 ? version : "";
}
