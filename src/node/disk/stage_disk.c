/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages a disk: verifies its content (format.c), creates the mount point and mounts the disk. Then
 * verifies that the mount has the expected device number in mountinfo, disk sequence number,
 * read-only state and flags. While the driver's descriptor is open, the kernel does not reuse the
 * device's number; the device's name is used only for mount(2) and checked afterwards. The caller
 * finds the disk, and unbinds its function after a failure.
 */
#include "node/disk/stage_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/metric.h"
#include "node/disk/check.h"
#include "node/disk/crypt.h"
#include "node/staged/claim.h"
#include "node/disk/format.h"
#include "node/disk/fs_fault.h"
#include "node/disk/grow.h"
#include "node/disk/queue_settings.h"
#include "node/work/job.h"
#include "node/work/disk_record.h"
#include "node/mount/fsck.h"
#include "node/mount/mount_flags.h"
#include "node/mount/mount_same.h"
#include "node/work/orphan_tool.h"
#include "node/disk/staged_disk.h"
#include "node/disk/writers.h"
#include "volume/context_keys.h"

/*
 * mkfs rounds a filesystem's size down by less than this many bytes. If the difference is larger,
 * the filesystem was created on a smaller device.
 */
#define GROW_SLACK (16ULL * 1024 * 1024)
#define UNDO_CLOSE_MS 1000 /* time limit for closing the container after a failed stage */

/* Returns the disk, even while its mapping is the staged device. */
static const struct device *disk_of(const struct staging *s)
{
	return s->disk_fd >= 0 ? &s->disk : &s->dev;
}

/* The number of a mapping is new at each open, so records have that of the disk. */
static uint64_t diskseq_of(const struct staging *s)
{
	return s->disk_fd >= 0 ? s->disk_diskseq : s->diskseq;
}

/*
 * Called right before the disk is mounted or bound, because its user may write to it after that.
 * Removes the records of mkfs and e2fsck runs on the disk.
 */
static int stage_disk_hand_out(const struct staging *s, struct err *err)
{
	if (disk_records_end(s->node, s->r->volume_id, disk_of(s), diskseq_of(s), s->read_only,
	                     err))
		return -1;
	kill_point("stage: records of the disk ended");
	return 0;
}

static int stage_disk_set_queue(const struct staging *s, struct err *err)
{
	return queue_settings_write(s->node, s->r->volume_id, disk_of(s), &s->r->params, err);
}

/* ---- encrypted volumes ---- */

/* Stages the mapping instead of the disk. The disk stays open, because its lock is needed. */
static int stage_disk_use_mapping(struct staging *s, const struct device *mapping, struct err *err)
{
	int fd = -1;
	uint64_t diskseq;

	if (device_open(mapping, O_RDONLY, &fd, &diskseq, err))
		return -1;
	s->disk = s->dev;
	s->disk_fd = s->fd;
	s->disk_diskseq = s->diskseq;
	s->dev = *mapping;
	s->fd = fd;
	s->diskseq = diskseq;
	return 0;
}

/* Stages the disk again instead of the mapping, which is returned in *ret (may be NULL). */
static void stage_disk_leave_mapping(struct staging *s, struct device *ret)
{
	if (ret)
		*ret = s->dev;
	close(s->fd);
	s->dev = s->disk;
	s->fd = TAKE_FD(s->disk_fd);
	s->diskseq = s->disk_diskseq;
}

/* If the container of the volume is open, uses its mapping. */
static int stage_disk_find_mapping(struct staging *s, struct err *err)
{
	struct device mapping;
	int rc;

	if (!s->r->params.encryption)
		return 0;
	rc = crypt_find(s->node, s->r->volume_id, &mapping, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (mapping.lower == s->dev.devno)
		return stage_disk_use_mapping(s, &mapping, err);
	if (!mapping.lower) /* its disk was removed: stage_disk_open_container() closes it */
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
	               "the encrypted mapping %s of this volume is on another disk than %s; it is "
	               "closed by NodeUnstageVolume",
	               mapping.path, s->dev.path);
}

/*
 * Closes a mapping that is not staged. It was left by a call that was interrupted, and is opened
 * again, so that each stage proves the passphrase.
 */
static int stage_disk_close_mapping(struct staging *s, struct deadline d, struct err *err)
{
	struct device mapping;

	stage_disk_leave_mapping(s, &mapping);
	if (crypt_close(s->node, &mapping, d, err))
		return -1;
	kill_point("stage: container closed");
	return 0;
}

/* ---- filesystem ---- */

/*
 * Returns the option that prevents a read-only mount from replaying the journal, because a replay
 * writes to the device: ext4(5), xfs(5), btrfs(5).
 */
static const char *no_replay_option(const char *fs_type)
{
	static const struct {
		const char *fs_type, *option;
	} rows[] = {
		{ "ext4", "noload" },
		{ "ext3", "noload" },
		{ "xfs", "norecovery" },
		{ "btrfs", "rescue=nologreplay" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i].fs_type, fs_type))
			return rows[i].option;
	return NULL;
}

/*
 * Returns true if the journal must not be replayed: for a reader-only volume, which may be written
 * on another node at the same time, and on a write-protected device. The journal of a writer's
 * volume with the mount flag "ro" is replayed, because only a replay makes its files consistent.
 */
static bool must_not_replay(const struct staging *s)
{
	return s->read_only && (s->dev.read_only || access_mode_is_reader_only(s->r->cap.mode));
}

/* ---- the device ---- */

static int set_device_read_only(struct staging *s, struct err *err)
{
	int was = 0, want = s->read_only;

	if (ioctl(s->fd, BLKROGET, &was) < 0)
		return err_sys(err, errno, "read-only state of %s", s->dev.path);
	if (was == want)
		return 0;
	if (ioctl(s->fd, BLKROSET, &want) < 0)
		return err_sys(err, errno, "make %s read-%s", s->dev.path, want ? "only" : "write");
	s->set_ro = true;
	s->was_ro = was;
	kill_point("stage: device switched to read-only or back");
	if (ioctl(s->fd, BLKROGET, &was) < 0 || was != want)
		return err_set(err, ERR_PRECONDITION,
		               "%s is write-protected by its controller, but %s requires writing",
		               s->dev.path, access_mode_name(s->r->cap.mode));
	return 0;
}

/*
 * Write-protects the device, because each mount of an ext4 deletes the files that had been unlinked
 * while open, even a read-only mount that does not replay the journal. Does not protect a device in
 * use, whose holder may write.
 */
static int protect_device(struct staging *s, struct err *err)
{
	int ro = 0;

	/*
	 * If the unstage of a reader was refused, the device was left read-only; a writer resets
	 * that.
	 */
	if (s->read_only && !must_not_replay(s))
		return 0;
	if (ioctl(s->fd, BLKROGET, &ro) == 0 && ro == s->read_only)
		return 0;
	return device_check_unused(&s->dev, err) ? -1 : set_device_read_only(s, err);
}

static void warn_of_journal(const struct staging *s, const char *fs_type)
{
	struct ext_state state;
	struct err ignored = ERR_INIT;

	if ((str_eq(fs_type, "ext4") || str_eq(fs_type, "ext3")) &&
	    !ext_state_read(s->fd, s->dev.path, &state, &ignored) && state.journal_dirty)
		log_msg(LOG_WARNING,
		        "volume %s is staged read-only with a journal that was not replayed: its "
		        "last writes may be missing; a read-write stage replays the journal",
		        s->r->volume_id);
}

static void stage_disk_mount_options(const struct staging *s, const char *fs_type, struct strs *ret)
{
	const char *no_replay = must_not_replay(s) ? no_replay_option(fs_type) : NULL;

	for (size_t i = 0; i < s->flags.n; i++)
		strs_add(ret, s->flags.v[i]);
	/*
	 * A clone or restored copy has its origin's UUID, and xfs would reject the second
	 * filesystem with that UUID on a node.
	 */
	if (str_eq(fs_type, "xfs") && !strs_has(ret, "nouuid"))
		strs_add(ret, "nouuid");
	mount_flags_add_safe(fs_type, ret);
	/* repeated, because the last option takes effect and the flags may have "rw" */
	if (s->read_only)
		strs_add(ret, "ro");
	if (no_replay && !strs_has(ret, no_replay)) {
		strs_add(ret, no_replay);
		warn_of_journal(s, fs_type);
	}
}

/*
 * Checks the flags of the mount. If an earlier mount holds the filesystem, even one that is in no
 * mount table any more, mount(2) returns the same superblock and drops flags that it was not
 * mounted with.
 */
static int stage_disk_check_flags(const struct staging *s, const struct mount *m, struct err *err)
{
	const struct mount_asked asked = {
		.flags = &s->flags,
		.no_replay = must_not_replay(s),
		.superblock_has_flags =
			str_has_prefix(m->fs_type, "ext") && ext_superblock_has_flags(s->fd),
	};
	const char *what;

	if (!mount_flags_differ(&asked, m, &what))
		return 0;
	err_set(err, ERR_UNAVAILABLE,
	        "%s was mounted with flags other than requested (%s differs): an earlier mount, "
	        "whose flags the filesystem keeps, is still in use; end the processes that use it "
	        "(fuser -vm %s), or wait for them to end",
	        s->dev.path, what, s->dev.path);
	return err_set_kind(err, ERR_KIND_HELD);
}

/*
 * Checks that the filesystem is usable. If a mount that is in no mount table holds it, mount(2)
 * returns the same superblock, with its fault. If it was frozen before its last mount here was
 * removed, only this call can thaw it.
 */
static int stage_disk_check_use(const struct staging *s, const struct mount_table *t,
                                const struct mountpoint *p, struct err *err)
{
	enum guard_ask ask = s->read_only ? GUARD_READ : GUARD_COMMIT;
	struct err ignored = ERR_INIT;
	int rc = fs_fault_probe(s->node, t, p, ask, err);

	if (rc != FS_FROZEN || guard_ask(s->node->guard, GUARD_THAW, p->disk, p->path, &ignored))
		return rc ? -1 : 0;
	err_clear(err);
	return fs_fault_probe(s->node, t, p, ask, err) ? -1 : 0;
}

/* After mount(2), verifies that this disk is mounted there as requested. */
static int stage_disk_check_result(const struct staging *s, const char *fs_type,
                                   const struct strs *options, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	const struct mount *m;
	int rc;

	if (mount_table_read(s->node->o.proc_root, &t, err) ||
	    mountpoint_read(&t, s->path, &p, err))
		return -1;
	m = p.m;
	if (p.kind != MOUNTPOINT_FILESYSTEM || p.disk != s->dev.devno)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s was mounted on %s, but the mount shows device %u:%u: the disk "
		               "changed during the call",
		               s->dev.path, s->path, major(p.disk), minor(p.disk));
	if (!str_eq(m->fs_type, fs_type) || m->read_only != s->read_only)
		return err_set(err, ERR_INTERNAL, "%s is mounted on %s as %s %s, not as %s %s",
		               s->dev.path, s->path, m->fs_type, m->read_only ? "ro" : "rw",
		               fs_type, s->read_only ? "ro" : "rw");
	if (staged_check_context(options, m, err) || stage_disk_check_flags(s, m, err))
		return -1;
	rc = mountpoint_check_same(&p, &s->dev, err);
	if (rc == MOUNTPOINT_DISK_GONE)
		return err_set(err, ERR_UNAVAILABLE, "%s was mounted on %s and was removed since",
		               s->dev.path, s->path);
	return rc ? -1 : stage_disk_check_use(s, &t, &p, err);
}

/*
 * Grows a filesystem that is smaller than its disk (a restored or expanded volume). The data can be
 * used even if it does not grow, so a failure is only logged; NodeExpandVolume reports it to the
 * user.
 */
static void stage_disk_grow(const struct staging *s, const struct fsprobe *fs, struct deadline d)
{
	struct err err = ERR_INIT;

	if (s->read_only || !fs->size || fs->size + GROW_SLACK >= s->dev.size)
		return;
	if (grow_filesystem(s->node, s->r->volume_id, fs->type, s->dev.path, s->path, d, &err))
		log_msg(LOG_WARNING, "volume %s is staged but could not be grown to its device: %s",
		        s->r->volume_id, err.msg);
	kill_point("stage: filesystem grown");
}

/*
 * Rejects a filesystem on several devices, because a volume is one disk. If a disk were missing,
 * the kernel would return ENOENT, or accept any disk that fits.
 */
static int refuse_several_devices(const struct staging *s, const struct fsprobe *fs,
                                  struct err *err)
{
	if (fs->devices <= 1 || strs_has(&s->flags, "degraded"))
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s: its btrfs spans %ju devices, expected 1; next: if all of them are "
	               "present, remove the others (btrfs device remove) or copy the data to a "
	               "new volume; the mount option \"degraded\" mounts the data of this device "
	               "only",
	               s->dev.path, (uintmax_t)fs->devices);
}

/*
 * Explains a failed mount. The kernel has no specific errno for a filesystem that the disk or the
 * kernel cannot hold: EINVAL for ext4 and btrfs, EIO or ENOSYS for xfs. If the filesystem's size or
 * block size conflicts with the disk or the page size, that is the reason. The mount is always
 * tried first, because some kernels can mount a block size larger than their page size (xfs since
 * 6.12), which a host with pages of 64 KiB may have used.
 */
static int explain_mount(const struct staging *s, const struct fsprobe *fs, struct err *err)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const bool refused = err->sys == EINVAL || err->sys == ENOSYS;
	const int sys = err->sys;
	char has[64], needs[64];
	int sector = 0;

	/* The size in a btrfs superblock is the total of all its devices. */
	if (fs->size > s->dev.size && fs->devices <= 1) {
		err_clear(err);
		err_set(err, ERR_PRECONDITION,
		        "the %s on %s has %s, larger than its device (%s), which was shrunk or "
		        "replaced; next: enlarge it on the backend, or restore the volume",
		        fs->type, s->dev.path, str_bytes(fs->size, needs),
		        str_bytes(s->dev.size, has));
	} else if (refused && ioctl(s->fd, BLKSSZGET, &sector) == 0 &&
	           (uint64_t)sector > fs->block_size) {
		err_clear(err);
		err_set(err, ERR_PRECONDITION,
		        "the logical sectors of %s have %d bytes, larger than the blocks of its %s "
		        "(%ju bytes); next: give its namespace the LBA format with which it was "
		        "made",
		        s->dev.path, sector, fs->type, (uintmax_t)fs->block_size);
	} else if (refused && fs->block_size > page) {
		err_clear(err);
		err_set(err, ERR_PRECONDITION,
		        "the %s on %s has blocks of %ju bytes, which are larger than the pages of "
		        "this host's kernel (%ju bytes), and few kernels can mount that; next: use "
		        "the volume on nodes whose kernel has pages of that size, and copy its "
		        "files there to a volume that this driver formats, which every node mounts",
		        fs->type, s->dev.path, (uintmax_t)fs->block_size, (uintmax_t)page);
	}
	err->sys = sys;
	return -1;
}

/*
 * kubelet stages with the first access mode of a PersistentVolume. With ReadWriteOnce and
 * ReadWriteMany, this is a mode of one node, but the controller attaches the volume to several.
 */
static bool is_of_many_nodes(const struct stage_request *r)
{
	return access_mode_is_multi_node(r->cap.mode) || !str_empty(r->format_node);
}

static struct format_request stage_disk_format(const struct staging *s)
{
	return (struct format_request) {
		.volume_id = s->r->volume_id,
		.dev = &s->dev,
		.fd = s->fd,
		.fs_type = s->r->cap.fs_type,
		.params = &s->r->params,
		.read_only = s->read_only,
		.diskseq = s->diskseq,
		.attachment = s->r->attachment,
		.format_option = s->r->format_option,
		.keys = s->r->keys,
		.raw = s->r->cap.type == ACCESS_BLOCK,
		.reader = access_mode_is_reader_only(s->r->cap.mode),
		.many_nodes = is_of_many_nodes(s->r),
		.format_node = s->r->format_node,
	};
}

/* The mapping of a read-only volume is read-only, so the disk is not protected itself. */
static int stage_disk_open_container(struct staging *s, const struct format_request *fr,
                                     struct deadline d, struct fsprobe *fs, struct err *err)
{
	struct err ignored = ERR_INIT;
	struct device mapping;
	int rc = crypt_find(s->node, s->r->volume_id, &mapping, err);

	if (rc < 0 || (!rc && crypt_close(s->node, &mapping, d, err)))
		return -1;
	crypt_clear(s->node, s->r->volume_id);
	if (format_ensure_encrypted(s->node, fr, d, fs, &mapping, err))
		return -1;
	kill_point("stage: container opened");
	if (stage_disk_use_mapping(s, &mapping, err)) {
		IGNORE_RESULT(crypt_close(s->node, &mapping, d, &ignored));
		return -1;
	}
	return fr->raw ? 0 : protect_device(s, err);
}

static int stage_disk_check_content(const struct staging *s, const struct fsprobe *fs,
                                    struct deadline d, struct err *err)
{
	const struct check_request cr = {
		.volume_id = s->r->volume_id,
		.dev = &s->dev,
		.fd = s->fd,
		.fs = fs,
		.read_only = s->read_only,
		.diskseq = diskseq_of(s),
		.attachment = s->r->attachment,
	};

	return check_filesystem(s->node, &cr, d, err);
}

static int stage_filesystem(struct staging *s, struct deadline d, struct err *err)
{
	const struct format_request fr = stage_disk_format(s);
	struct strs options AUTO(strs_clear) = STRS_INIT;
	struct fsprobe fs;

	if (s->r->params.encryption
	            ? stage_disk_open_container(s, &fr, d, &fs, err)
	            : protect_device(s, err) || format_ensure(s->node, &fr, d, &fs, err))
		return -1;
	if (stage_disk_check_content(s, &fs, d, err) ||
	    mount_flags_check_for(&s->flags, fs.type, err) || refuse_several_devices(s, &fs, err))
		return -1;
	stage_disk_mount_options(s, fs.type, &options);
	if (staging_make_point(s, err) || stage_disk_set_queue(s, err) ||
	    stage_disk_hand_out(s, err))
		return -1;
	if (mount_filesystem(s->dev.path, &s->target, fs.type, &options, s->flags.n, err))
		return explain_mount(s, &fs, err);
	s->mounted = true;
	kill_point("stage: filesystem mounted");
	if (stage_disk_check_result(s, fs.type, &options, err))
		return -1;
	kill_point("stage: mount verified");
	stage_disk_grow(s, &fs, d);
	return 0;
}

static struct staged_want wanted(const struct staging *s, const struct mount_table *t,
                                 struct deadline d)
{
	return (struct staged_want) {
		.node = s->node,
		.r = s->r,
		.dev = &s->dev,
		.mounts = t,
		.diskseq = s->diskseq,
		.flags = &s->flags,
		.read_only = s->read_only,
		.no_replay = must_not_replay(s),
		.deadline = d,
	};
}

/* ---- raw block ---- */

/* A pod that does not know of the container would overwrite its header. */
static int refuse_container(const struct staging *s, struct err *err)
{
	if (!crypt_has_header(s->fd))
		return 0;
	metric_add(METRIC_REFUSALS, 1, LABELS("foreign signature"));
	err_set(err, ERR_PRECONDITION,
	        "%s contains an encrypted volume of this driver, which would be handed out without "
	        "decryption; next: use it with a PersistentVolume that has " PARAM_ENCRYPTION
	        ": luks2, or clear it with \"blkdiscard -z\"",
	        s->dev.path);
	return err_set_kind(err, ERR_KIND_HAS_DATA);
}

static int stage_block(struct staging *s, struct deadline d, struct err *err)
{
	const struct format_request fr = stage_disk_format(s);
	struct staged_want want;
	struct fsprobe fs;
	struct stat st;

	if (s->r->params.encryption ? stage_disk_open_container(s, &fr, d, &fs, err)
	                            : refuse_container(s, err))
		return -1;
	want = wanted(s, NULL, d);

	/*
	 * A pod would write to the raw device unnoticed by a mount or another claim, so the device
	 * must be unused. A read-only bind mount does not protect a device node, so the device
	 * itself is made read-only.
	 */
	if (device_check_unused(&s->dev, err) || set_device_read_only(s, err) ||
	    staging_make_point(s, err) || stage_disk_set_queue(s, err) ||
	    stage_disk_hand_out(s, err) || mount_bind(s->dev.path, &s->target, err))
		return -1;
	s->mounted = true;
	kill_point("stage: device bound");
	if (stat(s->path, &st) < 0)
		return err_sys(err, errno, "stat the staged device %s", s->path);
	if (!S_ISBLK(st.st_mode) || st.st_rdev != s->dev.devno)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s was bound to %s, but the path shows device %u:%u: the disk "
		               "changed during the call",
		               s->dev.path, s->path, major(st.st_rdev), minor(st.st_rdev));
	return staged_check_block(&want, s->path, err);
}

/* ---- stage ---- */

static void undo(struct staging *s)
{
	struct err ignored = ERR_INIT;
	int was = s->was_ro;

	staging_undo(s);
	queue_settings_restore(s->node, s->r->volume_id);
	if (s->set_ro)
		ioctl(s->fd, BLKROSET, &was);
	if (s->disk_fd < 0)
		return;
	/* A check that still runs keeps the mapping open; the next call closes it. */
	IGNORE_RESULT(stage_disk_close_mapping(s, deadline_in_ms(UNDO_CLOSE_MS), &ignored));
}

/*
 * Checks whether the disk is already staged, and not mounted elsewhere. Returns STAGED_ABSENT if it
 * is not staged, so the caller may stage it.
 */
static int stage_disk_check(const struct staging *s, struct deadline d, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	const struct staged_want want = wanted(s, &t, d);
	struct claim claim = {
		.node = s->node,
		.volume_id = s->r->volume_id,
		.path = s->path,
		.dev = &s->dev,
	};
	int rc;

	if (mount_table_read(s->node->o.proc_root, &t, err))
		return -1;
	rc = staged_disk_check(&want, err);
	claim.staged = rc == 0;
	return rc < 0 || claim_check(&claim, &t, err) ? -1 : rc;
}

/* The volume was staged with a PersistentVolume that had no encryption. */
static int refuse_staged_plain(const struct staging *s, struct err *err)
{
	if (!s->r->params.encryption || s->disk_fd >= 0)
		return 0;
	return err_set(
		err, ERR_EXISTS,
		"the volume is already staged at %s without encryption (expected " PARAM_ENCRYPTION
		": luks2)",
		s->path);
}

static int stage_opened(struct staging *s, struct deadline d, struct err *err)
{
	struct err locked = ERR_INIT;
	int rc;

	/*
	 * First waits for a job that an earlier call started for this volume; this call returns the
	 * job's error.
	 */
	if (!s->check_only && job_join(s->node->jobs, s->r->volume_id, d, err))
		return -1;
	/* This lock excludes other stages of the disk until the descriptor is closed. */
	if (!s->check_only)
		IGNORE_RESULT(orphan_tool_lock(s->node, &s->dev, s->fd, d, &locked));
	rc = stage_disk_find_mapping(s, err) ? -1 : stage_disk_check(s, d, err);
	if (rc == 0)
		return refuse_staged_plain(s, err) || stage_disk_hand_out(s, err) ? -1 : 0;
	if (rc < 0 || staging_check_gate(s, err))
		return -1;
	if (locked.code) {
		*err = locked;
		return -1;
	}
	/* The second check is of the mounts that show the disk itself. */
	if (s->disk_fd >= 0 &&
	    (stage_disk_close_mapping(s, d, err) || stage_disk_check(s, d, err) < 0))
		return -1;
	if (writers_refuse_of_partitions(s->node, &s->dev, d, err))
		return -1;
	rc = s->kind == TARGET_FILE ? stage_block(s, d, err) : stage_filesystem(s, d, err);
	if (rc)
		undo(s);
	return rc;
}

/* Returns true if the device node no longer leads to the disk that was opened. */
static bool opened_has_gone(const struct staging *s)
{
	struct err ignored = ERR_INIT;
	uint64_t diskseq = 0;
	int fd AUTO(fd) = -1;

	return device_open(&s->dev, O_RDONLY, &fd, &diskseq, &ignored) || diskseq != s->diskseq;
}

/*
 * Called if the disk of device_wait() could not be opened. Returns true if now a different disk is
 * found, or none, or if the disk can be opened. Returns false if /dev does not match sysfs, because
 * waiting does not change that.
 */
static bool found_has_gone(const struct staging *s)
{
	struct err ignored = ERR_INIT;
	struct device now;
	int fd AUTO(fd) = -1;

	return device_find(&s->node->o.world, &s->r->want, &now, NULL, &ignored) ||
	       now.devno != s->dev.devno || now.diskseq != s->dev.diskseq ||
	       now.size != s->dev.size || !device_open(&now, O_RDONLY, &fd, NULL, &ignored);
}

/*
 * Adjusts an error whose cause is the disk: if it is removed or reappears during a stage, mount(2)
 * and other calls fail with "no such file" or "invalid argument", although the request is valid.
 */
static void blame_disk(const struct staging *s, struct err *err)
{
	struct err first = *err;

	if ((staging_is_retried(err->code) && err->sys != ENOENT) ||
	    !(s->fd < 0 ? found_has_gone(s) : opened_has_gone(s)))
		return;
	err_clear(err);
	err_set(err, ERR_UNAVAILABLE,
	        "%s; %s was removed during the call, or its name now belongs to another disk; "
	        "retry when its DPU shows it again",
	        first.msg, s->dev.path);
}

int stage_disk(struct staging *s, struct deadline d, struct err *err)
{
	int rc = device_open(&s->dev, O_RDONLY, &s->fd, &s->diskseq, err);

	if (!rc)
		rc = stage_opened(s, d, err);
	if (s->disk_fd >= 0)
		stage_disk_leave_mapping(s, NULL);
	if (rc)
		blame_disk(s, err);
	if (s->fd >= 0)
		close(TAKE_FD(s->fd));
	return rc;
}
