/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: makes the volume's device ready, once per node.
 *
 * Theory of operation. A volume on a node is in one of these states, all of which can be read from
 * the kernel (staged.c):
 *
 *   absent    nothing is mounted at the staging path (filesystem) nor at <staging>/<volume id>
 *             (raw block)
 *   staged    the wanted disk is there: mountinfo's device number, or st_rdev of the bound node,
 *             is the number to which the publish context leads now
 *   stale     a disk is there that this host no longer has: it is unmounted (lazily, since it
 *             may be dead), and the volume is absent
 *   foreign   another disk, or something else, is there: stage refuses, names both and changes
 *             nothing
 *
 * Stage goes absent -> staged. It finds the device (device_wait), holds it open, proves what is on
 * it (format.c), makes the mount point and mounts. Then it looks again: the number in mountinfo,
 * the disk sequence number, the read-only state and the flags must be the wanted ones. While our
 * descriptor is open the kernel gives the device's number to no other disk; the device's name is
 * trusted only for the moment of mount(2) and checked afterwards. When a step fails, what was done
 * is undone in reverse, so that a final code leaves no mount, no driver binding and no file.
 *
 * Unstage (unstage.c) goes staged -> absent. It refuses while anything else shows the disk,
 * unmounts every layer (the Go plugin stacked them), proves that nobody holds the disk, writes
 * back, and clears the function's driver override. Unmounted but still held by somebody, a volume
 * is absent for stage; unstage keeps a record until it is free (leaving.h).
 */
#include "node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/mem.h"
#include "node/check.h"
#include "node/format.h"
#include "node/job.h"
#include "node/mount/fsck.h"
#include "node/mount/mkfs.h"
#include "node/mount/mount_flags.h"
#include "node/mount/mount_same.h"
#include "node/outlived.h"
#include "node/place.h"
#include "node/propagation.h"
#include "node/staged.h"
#include "node/target.h"

/*
 * mkfs rounds a filesystem's size down by less than this: one that is smaller by more was made for
 * a smaller device.
 */
#define GROW_SLACK (16ULL * 1024 * 1024)
/* A staging path that was looked at longer ago is looked at again. */
#define LOOK_AGAIN_NS 100000000LL

/* One stage in progress, and what it has to undo. */
struct staging {
	struct node *node;
	const struct stage_request *r;
	struct device dev;
	int fd; /* of the device, open until the end */
	uint64_t diskseq;
	char *asked; /* where the mount goes, as the request has it */
	char *path;  /* the same as mountinfo has it, once it was made */
	enum target_kind kind;
	struct strs flags; /* of the mount, one each */
	bool read_only;
	unsigned made; /* levels of `asked` that were made */
	bool mounted;
	bool set_ro, was_ro; /* BLKROSET was used; the state before */
	/* In a container: what was at the staging path before the device was looked for. */
	struct mount_table table;
	struct place place;
	int64_t looked_at; /* when; 0: not yet */
};

/* ---- filesystem ---- */

/* The mount point, with the directories above it, and its name in mountinfo. */
static int make_point(struct staging *s, struct err *err)
{
	int rc;

	if (target_make(s->asked, s->kind, &s->made, err))
		return -1;
	kill_point("stage: mount point made");
	rc = mount_place(s->asked, &s->path, err);
	if (rc == MOUNT_DIR_ABSENT)
		return err_set(err, ERR_UNAVAILABLE, "%s was removed by somebody", s->asked);
	return rc;
}

/*
 * The option that keeps a read-only mount from replaying the journal, which writes to the device:
 * ext4(5), xfs(5), btrfs(5).
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
 * A reader-only volume may be written on another node at this very moment, and on a write-protected
 * device nothing can be replayed. A writer's volume with the mount flag "ro" is replayed: only that
 * makes its files whole.
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
		               "%s is write-protected by its controller, and %s wants to write",
		               s->dev.path, access_mode_name(s->r->cap.mode));
	return 0;
}

/* By nobody on this host, as a mount or a claim (RAID, LVM). */
static int check_not_in_use(const struct staging *s, struct err *err)
{
	int fd AUTO(fd) = -1;

	return device_open(&s->dev, O_RDONLY | O_EXCL, &fd, NULL, err);
}

/*
 * ext4 cleans up files that were removed while they were open at each mount, also at one that is
 * read-only and leaves the journal alone: only a device that cannot be written stops it. Not a
 * device in use, whose holder may write.
 */
static int protect_device(struct staging *s, struct err *err)
{
	int ro = 0;

	if (!must_not_replay(s))
		return 0;
	if (ioctl(s->fd, BLKROGET, &ro) == 0 && ro)
		return 0;
	return check_not_in_use(s, err) ? -1 : set_device_read_only(s, err);
}

static void warn_of_journal(const struct staging *s, const char *fs_type)
{
	struct ext_state state;
	struct err ignored = ERR_INIT;

	if ((str_eq(fs_type, "ext4") || str_eq(fs_type, "ext3")) &&
	    !ext_state_read(s->fd, s->dev.path, &state, &ignored) && state.journal_dirty)
		log_msg(LOG_WARNING,
		        "volume %s is staged read-only with a journal that was not replayed: what "
		        "was written last may be missing; a read-write stage replays it",
		        s->r->volume_id);
}

static void mount_options(const struct staging *s, const char *fs_type, struct strs *ret)
{
	const char *no_replay = must_not_replay(s) ? no_replay_option(fs_type) : NULL;

	for (size_t i = 0; i < s->flags.n; i++)
		strs_add(ret, s->flags.v[i]);
	/*
	 * A clone or restored copy has its origin's UUID; xfs would refuse the second one on a
	 * node.
	 */
	if (str_eq(fs_type, "xfs") && !strs_has(ret, "nouuid"))
		strs_add(ret, "nouuid");
	mount_flags_add_safe(fs_type, ret);
	if (s->read_only) /* again, behind an "rw" of the flags: the last one counts */
		strs_add(ret, "ro");
	if (no_replay && !strs_has(ret, no_replay)) {
		strs_add(ret, no_replay);
		warn_of_journal(s, fs_type);
	}
}

/*
 * While somebody holds the filesystem by an earlier mount, also one that no table shows any more,
 * mount(2) shows the same one again and drops the flags that it was not mounted with.
 */
static int check_flags(const struct staging *s, const struct mount *m, struct err *err)
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
	return err_set(err, ERR_UNAVAILABLE,
	               "%s was mounted with other flags than were asked for (%s differs): somebody "
	               "still holds its filesystem by an earlier mount, whose flags it keeps; end "
	               "who holds it (fuser -vm %s), or wait until they have ended",
	               s->dev.path, what, s->dev.path);
}

/* After mount(2): is it this disk that is mounted there, and as it was wanted? */
static int check_result(const struct staging *s, const char *fs_type, const struct strs *options,
                        struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct place p AUTO(place_clear) = PLACE_INIT;
	const struct mount *m;
	int rc;

	if (mount_table_read(s->node->o.proc_root, &t, err) || place_look(&t, s->path, &p, err))
		return -1;
	m = p.m;
	if (p.kind != PLACE_FILESYSTEM || p.disk != s->dev.devno)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s was mounted on %s, but device %u:%u is there: "
		               "the disk has changed meanwhile",
		               s->dev.path, s->path, major(p.disk), minor(p.disk));
	if (!str_eq(m->fs_type, fs_type) || m->read_only != s->read_only)
		return err_set(err, ERR_INTERNAL, "%s is mounted on %s as %s %s, not as %s %s",
		               s->dev.path, s->path, m->fs_type, m->read_only ? "ro" : "rw",
		               fs_type, s->read_only ? "ro" : "rw");
	if (staged_check_context(options, m, err) || check_flags(s, m, err))
		return -1;
	rc = place_check_same(&p, &s->dev, err);
	if (rc == PLACE_DISK_GONE)
		return err_set(err, ERR_UNAVAILABLE, "%s was mounted on %s and has gone since",
		               s->dev.path, s->path);
	return rc;
}

/*
 * Grows a filesystem that is smaller than its disk (a restored or expanded volume). The data can be
 * used either way, so a failure is only logged; NodeExpandVolume reports it to the user.
 */
static void grow(const struct staging *s, const struct fsprobe *fs, struct deadline d)
{
	struct err err = ERR_INIT;

	if (s->read_only || !fs->size || fs->size + GROW_SLACK >= s->dev.size)
		return;
	if (fs_grow(fs->type, s->dev.path, s->path, d, &err))
		log_msg(LOG_WARNING, "volume %s is staged but could not be grown to its device: %s",
		        s->r->volume_id, err.msg);
	kill_point("stage: filesystem grown");
}

static int stage_filesystem(struct staging *s, struct deadline d, struct err *err)
{
	const struct format_request fr = {
		.volume_id = s->r->volume_id,
		.dev = &s->dev,
		.fd = s->fd,
		.fs_type = s->r->cap.fs_type,
		.params = &s->r->params,
		.read_only = s->read_only,
		.diskseq = s->diskseq,
		.attachment = s->r->attachment,
	};
	struct strs options AUTO(strs_clear) = STRS_INIT;
	struct fsprobe fs;
	const struct check_request cr = {
		.volume_id = s->r->volume_id,
		.dev = &s->dev,
		.fd = s->fd,
		.fs = &fs,
		.read_only = s->read_only,
		.diskseq = s->diskseq,
		.attachment = s->r->attachment,
	};

	if (outlived_lock(s->node, &s->dev, s->fd, d, err) || protect_device(s, err))
		return -1;
	if (format_ensure(s->node, &fr, d, &fs, err) || check_filesystem(s->node, &cr, d, err) ||
	    mount_flags_check_for(&s->flags, fs.type, err))
		return -1;
	mount_options(s, fs.type, &options);
	if (make_point(s, err) || mount_filesystem(s->dev.path, s->path, fs.type, &options, err))
		return -1;
	s->mounted = true;
	kill_point("stage: filesystem mounted");
	if (check_result(s, fs.type, &options, err))
		return -1;
	kill_point("stage: mount looked at again");
	grow(s, &fs, d);
	return 0;
}

static struct staged_want wanted(const struct staging *s)
{
	return (struct staged_want) {
		.node = s->node,
		.r = s->r,
		.dev = &s->dev,
		.diskseq = s->diskseq,
		.flags = &s->flags,
		.read_only = s->read_only,
		.no_replay = must_not_replay(s),
		.seen = s->looked_at && monotonic_ns() - s->looked_at < LOOK_AGAIN_NS ? &s->place
		                                                                      : NULL,
	};
}

/* ---- raw block ---- */

static int stage_block(struct staging *s, struct err *err)
{
	const struct staged_want want = wanted(s);
	struct stat st;

	/*
	 * A pod with the raw device would write to it unseen by whatever has it mounted or claimed.
	 * The read-only flag of a bind mount means nothing for a device node: the device itself is
	 * switched.
	 */
	if (check_not_in_use(s, err) || set_device_read_only(s, err) || make_point(s, err) ||
	    mount_bind(s->dev.path, s->path, err))
		return -1;
	s->mounted = true;
	kill_point("stage: device bound");
	if (stat(s->path, &st) < 0)
		return err_sys(err, errno, "look at the staged device %s", s->path);
	if (!S_ISBLK(st.st_mode) || st.st_rdev != s->dev.devno)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s was bound to %s, but device %u:%u is there: "
		               "the disk has changed meanwhile",
		               s->dev.path, s->path, major(st.st_rdev), minor(st.st_rdev));
	return staged_check_block(&want, s->path, err);
}

/* ---- stage ---- */

static void undo(struct staging *s)
{
	struct err ignored = ERR_INIT;
	int was = s->was_ro;

	if (s->mounted && mount_remove(s->path, false, &ignored) < 0) {
		err_clear(&ignored);
		IGNORE_RESULT(mount_remove(s->path, true, &ignored));
	}
	kill_point("undo stage: unmounted");
	target_unmake(s->asked, s->made);
	kill_point("undo stage: mount point removed");
	if (s->set_ro)
		ioctl(s->fd, BLKROSET, &was);
}

static int stage_device(struct staging *s, struct deadline d, struct err *err)
{
	struct staged_want want;
	int rc;

	/* A job that an earlier call began for this volume ends first; its error is this call's. */
	if (job_join(s->node->jobs, s->r->volume_id, d, err))
		return -1;
	want = wanted(s);
	rc = staged_look(&want, err);
	if (rc != STAGED_ABSENT)
		return rc;
	rc = s->kind == TARGET_FILE ? stage_block(s, err) : stage_filesystem(s, d, err);
	if (rc)
		undo(s);
	return rc;
}

/*
 * Codes after which the caller tries again, or unstages: the driver may stay bound. kubelet retries
 * RESOURCE_EXHAUSTED, too, but CSI does not promise that.
 */
static bool will_be_retried(enum err_code code)
{
	return code == ERR_CANCELLED || code == ERR_DEADLINE || code == ERR_UNAVAILABLE ||
	       code == ERR_ABORTED;
}

/* Is it no longer the disk that was opened? */
static bool disk_has_gone(const struct staging *s)
{
	struct err ignored = ERR_INIT;
	uint64_t diskseq = 0;
	int fd AUTO(fd) = -1;

	return device_open(&s->dev, O_RDONLY, &fd, &diskseq, &ignored) || diskseq != s->diskseq;
}

/*
 * When the disk goes or comes anew in the middle of a stage, mount(2) and others call it a missing
 * file or an invalid argument. Nothing is wrong with the request.
 */
static void blame_disk(const struct staging *s, struct err *err)
{
	struct err first = *err;

	if (s->fd < 0 || will_be_retried(err->code) || !disk_has_gone(s))
		return;
	err_clear(err);
	err_set(err, ERR_UNAVAILABLE,
	        "%s; %s has gone meanwhile, or another disk has its name; retry when its DPU shows "
	        "it again",
	        first.msg, s->dev.path);
}

static void let_device_go(struct staging *s, struct err *err)
{
	const struct device_world *world = &s->node->o.world;
	struct err failed = ERR_INIT, first;

	blame_disk(s, err);
	first = *err;
	if (will_be_retried(err->code)) {
		IGNORE_RESULT(device_release(world, &s->dev, &failed));
		return;
	}
	if (s->fd >= 0)
		close(TAKE_FD(s->fd));
	if (!device_abandon(world, &s->dev, &failed))
		return;
	err_clear(err);
	err_set(err, first.code, "%s; %s", first.msg, failed.msg);
}

static int stage(struct staging *s, struct deadline d, struct err *err)
{
	const struct device_world *world = &s->node->o.world;
	int rc;

	if (device_wait(world, &s->r->want, d, &s->dev, err))
		return -1;
	kill_point("stage: device found");
	rc = device_open(&s->dev, O_RDONLY, &s->fd, &s->diskseq, err);
	if (!rc)
		rc = stage_device(s, d, err);
	if (rc)
		let_device_go(s, err);
	kill_point("stage: done, not answered");
	return rc;
}

static int parse_flags(struct staging *s, struct err *err)
{
	const struct volume_cap *cap = &s->r->cap;

	if (mount_flags_check(cap->mount_flags, cap->n_mount_flags, cap->fs_type, &s->flags, err))
		return err_wrap(err, "VolumeCapability.Mount.MountFlags");
	s->read_only = access_mode_is_reader_only(cap->mode) || strs_has(&s->flags, "ro");
	return 0;
}

/*
 * Would a pod see a mount at the staging path? Of the table only that path's mount is kept: the
 * wait for the device may be long.
 */
static int look_at_point(struct staging *s, struct err *err)
{
	const struct node_options *o = &s->node->o;

	if (!o->own_mounts)
		return 0;
	if (mount_table_read(o->proc_root, &s->table, err) ||
	    propagation_check(o, &s->table, s->asked, err) ||
	    place_look_staged(&s->table, s->r->staging_path, s->r->volume_id, &s->place, err))
		return -1;
	mount_table_keep(&s->table, &s->place.m);
	s->looked_at = monotonic_ns();
	return 0;
}

/* What an operator asks first: which disk is this volume on this node? */
static void log_staged(const struct staging *s, int64_t since)
{
	char ms[32];
	const struct log_pair pairs[] = {
		log_text("volume", s->r->volume_id), log_text("device", s->dev.path),
		log_text("pci", s->dev.pci),         log_text("uuid", s->dev.uuid),
		log_number("ms", log_ms(since, ms)),
	};

	log_pairs(LOG_INFO, s->mounted ? "staged" : "already staged", pairs, ARRAY_LEN(pairs));
}

int node_stage(struct node *n, const struct stage_request *r, struct deadline d, struct err *err)
{
	int64_t since = monotonic_ns();
	struct staging s = {
		.node = n,
		.r = r,
		.fd = -1,
		.kind = r->cap.type == ACCESS_BLOCK ? TARGET_FILE : TARGET_DIR,
		.flags = STRS_INIT,
	};
	int rc;

	/* Leaves time to answer why the rest was not enough. */
	d = deadline_reserve(d, 1000, 5);
	s.asked = s.kind == TARGET_FILE ? place_block_file(r->staging_path, r->volume_id)
	                                : xstrdup(r->staging_path);
	rc = parse_flags(&s, err);
	if (!rc)
		rc = look_at_point(&s, err);
	if (!rc)
		rc = stage(&s, d, err);
	if (!rc)
		log_staged(&s, since);
	if (s.fd >= 0)
		close(s.fd);
	place_clear(&s.place);
	mount_table_clear(&s.table);
	strs_clear(&s.flags);
	free(s.asked);
	free(s.path);
	return rc ? err_wrap(err, "stage volume %s", r->volume_id) : 0;
}
