/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes mounts. libmount converts option lists into mount(2)'s flags. Each call has its own
 * context, because libmount's objects are not thread-safe. Mount helpers (except for shares),
 * fstab, path canonicalization and mount(8)'s fallback to read-only are off. Bind mounts, remounts
 * and unmounts are one system call each, made without libmount, which would stat the target: a stat
 * of a dead mount hangs. Does not decide which mounts are permitted.
 */
#include "node/mount/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/thread.h"
#include "node/mount/mount_option.h"

DEFINE_AUTO(struct libmnt_context *, mnt_free_context);

/* ---- targets ---- */

int mount_target_open(const char *path, struct mount_target *ret, struct err *err)
{
	char *copy AUTO(free) = xstrdup(path), *name = strrchr(copy, '/');
	int dir AUTO(fd) = -1;
	struct stat st;

	*name++ = '\0';
	*ret = (struct mount_target) { .path = path, .fd = -1 };
	if (dir_open(copy, &dir, err))
		return err_recode(err, err->sys == ENOTDIR ? ERR_PRECONDITION : ERR_UNAVAILABLE);
	ret->fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0) {
		err_sys(err, errno, "open the mount point %s", path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	if (fstat(ret->fd, &st) == 0 && !S_ISLNK(st.st_mode))
		return 0;
	mount_target_clear(ret);
	return err_set(
		err, ERR_PRECONDITION,
		"mount point %s: it was replaced by a symbolic link; nothing is mounted; next: "
		"check which users can write to its parent directory",
		path);
}

void mount_target_clear(struct mount_target *t)
{
	if (t->fd >= 0)
		close(TAKE_FD(t->fd));
}

struct target_name {
	char text[40];
};

/*
 * Returns a path of the open target for mount(2) and umount(2). For a directory it ends in a dot,
 * so that move_mount(2), which libmount calls since 2.39, follows the link.
 */
static struct target_name name_of_target(const struct mount_target *t, bool directory)
{
	struct target_name name;

	snprintf(name.text, sizeof(name.text), "/proc/self/fd/%d%s", t->fd, directory ? "/." : "");
	return name;
}

void mount_target_remove(const struct mount_target *t)
{
	struct target_name name = name_of_target(t, false);

	thread_rest(); /* it may hang */
	if (t->fd >= 0 && umount2(name.text, 0) < 0 && errno != EINVAL)
		umount2(name.text, MNT_DETACH);
}

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
 * Returns the first option that the filesystem rejects, with the kernel's message, or "". Checks
 * only the options without a flag of mount(2), because only these reach the filesystem; context= is
 * handled by SELinux.
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
 * Explains EINVAL, which means either a wrong option or a superblock that the kernel cannot use. If
 * the kernel rejects an option on its own, that option is the reason. Otherwise the reason may be
 * one of the user's options (the first `asked` of `options`), but is never one of the driver's own.
 */
static int mount_explain_options(const char *device, const char *fs_type,
                                 const struct strs *options, size_t asked, struct err *err)
{
	const struct strs user = { .v = options->v, .n = asked };
	struct str refused AUTO(str_clear) = STR_INIT(500);
	char *list AUTO(free) = strs_join(&user, ",");

	find_refused(fs_type, options, &refused);
	if (!refused.len && !asked) {
		err_set(err, ERR_PRECONDITION,
		        "mount %s (%s): the kernel cannot mount it (EINVAL); next: see dmesg for "
		        "the unsupported feature of the filesystem; a node with a newer kernel "
		        "may mount it",
		        device, fs_type);
		err->sys = EINVAL;
		return -1;
	}
	if (!refused.len)
		str_addf(&refused,
		         "the kernel rejected this %s with the mount options \"%s\"; dmesg shows "
		         "whether an option or a feature of the filesystem is the cause",
		         fs_type, list);
	err_set(err, ERR_INVALID,
	        "mount %s: %s. Correct the options in mountOptions of the StorageClass for new "
	        "volumes, and of the PersistentVolume for this one",
	        device, refused.ptr);
	err->sys = EINVAL;
	return -1;
}

/*
 * Sets the error to libmount's message for the errno and this filesystem, with the driver's own
 * code.
 */
static int mount_explain(struct libmnt_context *cxt, int rc, const char *device, const char *target,
                         const char *fs_type, struct err *err)
{
	char text[400] = "";
	int sys = mnt_context_syscall_called(cxt) ? mnt_context_get_syscall_errno(cxt) : 0;

	mnt_context_get_excode(cxt, rc, text, sizeof(text));
	if (str_empty(text) || sys == ENOSPC || sys == EEXIST || sys == ENOENT)
		return err_sys_of(err, ERR_CALL_MOUNT, sys ? sys : EINVAL, "mount %s (%s) on %s",
		                  device, fs_type, target);
	err_set(err, code_of_mount(sys), "mount %s (%s) on %s: %s", device, fs_type, target, text);
	err->sys = sys;
	if (err->code == ERR_DATA_LOSS)
		err_wrap(err,
		         "the filesystem is damaged; it is not repaired automatically (by hand: "
		         "%s %s)",
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
		return err_set(err, ERR_INVALID, "mount %s on %s: cannot parse options %s", source,
		               target, list);
	return 0;
}

/*
 * Removes the kernel's entry of an unmounted btrfs on this device. The kernel keeps entries of a
 * btrfs on several devices by device number, even if another disk has this number now. Since 6.7,
 * such a stale entry makes the mount of a copy of a mounted filesystem fail: with EINVAL, because
 * the copy is added to the stale filesystem, or with EEXIST, because the copy gets no temporary
 * fsid. Errors are ignored: EBUSY, the btrfs is mounted; ENOENT, there is no entry.
 */
static void forget_stale_btrfs(const char *device)
{
	struct btrfs_ioctl_vol_args args = { 0 };
	int fd AUTO(fd) = open("/dev/btrfs-control", O_RDWR | O_CLOEXEC);

	/* With an empty name, the kernel would remove the entries of all devices. */
	if (fd < 0 || str_empty(device) || strlen(device) >= sizeof(args.name))
		return;
	snprintf(args.name, sizeof(args.name), "%s", device);
	ioctl(fd, BTRFS_IOC_FORGET_DEV, &args);
}

int mount_filesystem(const char *device, const struct mount_target *target, const char *fs_type,
                     const struct strs *options, size_t asked, struct err *err)
{
	struct libmnt_context *cxt AUTO(mnt_free_context) = mnt_new_context();
	struct target_name name = name_of_target(target, true);
	int rc;

	if (!cxt)
		abort();
	if (mount_prepare(cxt, device, name.text, fs_type, options, err))
		return -1;
	thread_rest(); /* it may hang */
	if (str_eq(fs_type, "btrfs"))
		forget_stale_btrfs(device);
	rc = mnt_context_mount(cxt);
	if (rc && mnt_context_syscall_called(cxt) && mnt_context_get_syscall_errno(cxt) == EINVAL)
		return mount_explain_options(device, fs_type, options, asked, err);
	if (rc || !mnt_context_get_status(cxt))
		return mount_explain(cxt, rc, device, target->path, fs_type, err);
	return 0;
}

/*
 * Explains why a share was not mounted: mount(2) has failed, or neither such a filesystem nor a
 * mount helper exists.
 */
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
		                                           : ", and no mount helper for it is "
		                                             "installed");
	if (sys != EINVAL)
		return mount_explain(cxt, rc, tag, target, fs_type, err);
	find_refused(fs_type, options, &refused);
	return refused.len ? mount_explain_options(tag, fs_type, options, options->n, err)
	                   : MOUNT_NO_TAG;
}

int mount_share(const char *tag, const struct mount_target *target, const char *fs_type,
                const struct strs *options, struct err *err)
{
	struct libmnt_context *cxt AUTO(mnt_free_context) = mnt_new_context();
	struct target_name opened = name_of_target(target, true);
	bool helped = !str_eq(fs_type, "virtiofs");
	const char *name, *value;
	int rc;

	if (!cxt)
		abort();
	if (mount_prepare(cxt, tag, helped ? target->path : opened.text, fs_type, options, err))
		return -1;
	if (mnt_fs_get_tag(mnt_context_get_fs(cxt), &name, &value) == 0)
		return err_set(err, ERR_INVALID,
		               "the tag %s has the form LABEL=..., for which mount(8) searches "
		               "for a disk",
		               tag);
	mnt_context_disable_helpers(cxt, !helped);
	thread_rest(); /* it may hang */
	rc = mnt_context_mount(cxt);
	if (mnt_context_helper_executed(cxt))
		return mnt_context_get_helper_status(cxt) ? MOUNT_NO_TAG : 0;
	if (rc || !mnt_context_get_status(cxt))
		return explain_share(cxt, rc, tag, target->path, fs_type, options, err);
	return 0;
}

int mount_bind(const char *source, const struct mount_target *target, struct err *err)
{
	struct target_name name = name_of_target(target, false);

	if (mount(source, name.text, NULL, MS_BIND, NULL) < 0)
		return err_sys_of(err, ERR_CALL_MOUNT, errno, "bind %s to %s", source,
		                  target->path);
	return 0;
}

/* Includes EPERM, which container runtimes return for unknown system calls. */
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
		return err_sys_of(err, ERR_CALL_MOUNT, errno, "bind %s", source);
	*ret_id = statx(at, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) == 0 &&
	                          (stx.stx_mask & STATX_MNT_ID)
	                  ? (int)stx.stx_mnt_id
	                  : 0;
	fd = open_tree(at, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0 && is_unsupported(errno))
		return MOUNT_UNSUPPORTED;
	if (fd < 0)
		return err_sys_of(err, ERR_CALL_MOUNT, errno, "bind %s", source);
	if (read_only && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return is_unsupported(errno) ? MOUNT_UNSUPPORTED
		                             : err_sys_of(err, ERR_CALL_MOUNT, errno,
		                                          "make the bind of %s read-only", source);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int mount_tree_put(int fd, const char *source, const struct mount_target *target, struct err *err)
{
	if (move_mount(fd, "", target->fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) ==
	    0)
		return 0;
	return is_unsupported(errno) ? MOUNT_UNSUPPORTED
	                             : err_sys_of(err, ERR_CALL_MOUNT, errno, "bind %s to %s",
	                                          source, target->path);
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
	char *dir AUTO(free) = xstrdup(target), *name = strrchr(dir, '/'), *path AUTO(free) = NULL;
	int fd AUTO(fd) = -1;

	*name++ = '\0';
	if (dir_open(dir, &fd, err)) {
		if (err->sys != ENOENT)
			return err_wrap(err, "unmount %s", target);
		err_clear(err);
		return MOUNT_ABSENT;
	}
	path = xasprintf("/proc/self/fd/%d/%s", fd, name);
	thread_rest(); /* it may hang */
	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
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
