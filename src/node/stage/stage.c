/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages a volume: makes its device ready, once per node.
 *
 * Theory of operation. A volume on a node is in one of these states, all of which can be determined
 * from the kernel (staged_disk.c):
 *
 *   absent    nothing is mounted at the staging path (filesystem) nor at <staging>/<volume id>
 *             (raw block)
 *   staged    the wanted disk or share is mounted. For a disk, the device number in mountinfo, or
 *             st_rdev of the bound node, is that of the disk in the publish context. For a share,
 *             the tag is the wanted one, and the superblock's device number is the one that the
 *             tag selects now (stage_share.c)
 *   stale     a disk or share is mounted that this host no longer has: it is unmounted (lazily,
 *             because it may be dead), and the volume is absent
 *   foreign   another disk, or a different mount, is at the path: a stage fails, names both and
 *             changes nothing
 *
 * A stage leads from absent to staged. It finds the device (device_wait), then calls stage_disk.c
 * or stage_share.c, as the publish context determines. When a step fails, the previous steps are
 * undone in reverse order, so that after a final code no mount, no driver binding and no file
 * remains.
 *
 * While the gate is closed (gatekeeper.h), a stage call only checks whether the volume is staged,
 * so that a repeated call of kubelet succeeds. If the gate closes during a stage, its waits end and
 * its binding is undone, but a mount that has begun is completed.
 *
 * An unstage (unstage.c) leads from staged to absent. It fails while the disk has any other mount.
 * It unmounts every mount stacked at the path (the Go plugin stacked them), proves that the disk
 * has no holder, writes back its data, and clears the function's driver_override. If the disk is
 * unmounted but still has a holder, the volume is absent for a stage; the unstage keeps a record
 * until the disk is free (disk_record.h).
 */
#include "node/stage/stage.h"

#include <stdlib.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/work/job.h"
#include "node/mount/mount_flags.h"
#include "node/target/propagation.h"
#include "node/disk/stage_disk.h"
#include "node/share/stage_share.h"

static bool is_share(const struct stage_request *r)
{
	return r->want.emulation == EMULATION_VIRTIOFS;
}

/*
 * Returns true if the function stays bound, for a retry of the call. After the gate has closed, the
 * retry may be much later, so the device is released, except while a tool is running:
 * device_abandon() cannot detect a tool before it has opened the disk.
 */
static bool keeps_device(struct staging *s, enum err_code code)
{
	return staging_is_retried(code) && (!gatekeeper_withdrew(s->node->o.gate, &s->pass) ||
	                                    job_runs(s->node->jobs, s->r->volume_id));
}

static void let_device_go(struct staging *s, struct err *err)
{
	const struct device_world *world = &s->node->o.world;
	struct err failed = ERR_INIT, first = *err;

	if (keeps_device(s, err->code)) {
		IGNORE_RESULT(device_release(world, &s->dev, &failed));
		return;
	}
	if (!device_abandon(world, &s->dev, &failed))
		return;
	err_clear(err);
	err_set(err, first.code, "%s; %s", first.msg, failed.msg);
	err_set_kind(err, first.kind);
}

static int find_device(struct staging *s, struct deadline d, struct err *err)
{
	const struct device_world *world = &s->node->o.world;
	struct device_want want = s->r->want;
	int rc;

	if (s->check_only) {
		rc = device_find(world, &want, &s->dev, NULL, err);
		return rc == DEVICE_ABSENT ? staging_check_gate(s, err) : rc;
	}
	if (is_share(s->r) && stage_share_prepare(s, d, err))
		return -1;
	want.seen = s->was_present;
	return device_wait(world, &want, d, &s->dev, err);
}

static int stage(struct staging *s, struct deadline d, struct err *err)
{
	int rc;

	if (find_device(s, d, err))
		return -1;
	kill_point("stage: device found");
	rc = is_share(s->r) ? stage_share(s, err) : stage_disk(s, d, err);
	if (rc && !s->check_only)
		let_device_go(s, err);
	kill_point("stage: done, not answered");
	return rc;
}

/*
 * If the closed gate prevented a step, makes the error say so; other findings of the call do not
 * matter then.
 */
static void blame_gate(struct staging *s, struct err *err)
{
	struct err closed = ERR_INIT, first = *err;

	if (s->check_only) {
		if (!gatekeeper_check(s->node->o.gate, &closed))
			err_set(&closed, ERR_UNAVAILABLE, "the gate was closed; retry");
	} else if (staging_is_retried(first.code) &&
	           gatekeeper_withdrew(s->node->o.gate, &s->pass)) {
		err_set(&closed, ERR_UNAVAILABLE,
		        "the gate was closed during the call, so the DPU's functions may be "
		        "about to change: %s",
		        first.msg);
	} else {
		return;
	}
	*err = closed;
}

static int stage_by_leave(struct staging *s, struct deadline d, struct err *err)
{
	struct gatekeeper *gate = s->node->o.gate;
	int rc;

	s->check_only = !gatekeeper_enter(gate, &s->pass, d.cancel);
	rc = stage(s, d, err);
	if (rc)
		blame_gate(s, err);
	if (!s->check_only)
		gatekeeper_leave(gate, &s->pass);
	return rc;
}

static int parse_flags(struct staging *s, struct err *err)
{
	const struct volume_cap *cap = &s->r->cap;

	/*
	 * The fs_type of the request is ignored for a share, because a share has no choice of
	 * filesystem.
	 */
	if (mount_flags_check(cap->mount_flags, cap->n_mount_flags,
	                      is_share(s->r) ? "virtiofs" : cap->fs_type, &s->flags, err))
		return err_wrap(err, "VolumeCapability.Mount.MountFlags");
	s->read_only = access_mode_is_reader_only(cap->mode) || strs_has(&s->flags, "ro");
	return 0;
}

/*
 * Checks that a pod would see a mount at the staging path. Called first, because the wait for the
 * device may be long.
 */
static int check_staging_point(const struct staging *s, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	const struct node_options *o = &s->node->o;

	if (!o->own_mounts)
		return 0;
	return mount_table_read(o->proc_root, &t, err) || propagation_check(o, &t, s->path, err)
	               ? -1
	               : 0;
}

/* Logs which disk of this node is the volume, because operators ask this first. */
static void log_staged(const struct staging *s, int64_t since)
{
	char ms[32];
	const struct log_pair pairs[] = {
		log_text("volume", s->r->volume_id),
		log_text("device", *s->dev.path ? s->dev.path : s->dev.name),
		log_text("pci", s->dev.pci),
		is_share(s->r) ? log_text("tag", s->r->want.tag) : log_text("uuid", s->dev.uuid),
		log_number("ms", log_ms(since, ms)),
	};

	log_pairs(LOG_INFO, s->mounted ? "staged" : "already staged", pairs, ARRAY_LEN(pairs));
}

static void count_stage(const struct stage_request *r, int rc)
{
	const char *volume = is_share(r)                   ? "virtiofs"
	                     : r->cap.type == ACCESS_BLOCK ? "block"
	                     : str_empty(r->cap.fs_type)   ? "ext4"
	                                                   : r->cap.fs_type;

	metric_add(METRIC_STAGES, 1, LABELS(volume, rc ? "failed" : "ok"));
}

/*
 * A longer time since the attachment is not part of a pod's start: the node was rebooted, or the
 * volume was staged again without a detach. A negative time means that the clock differs from the
 * API server's.
 */
#define ATTACH_TO_STAGE_MAX_S 3600

static void count_attach_to_stage(const struct stage_request *r, const struct timespec *begun)
{
	const char *text = r->attachment_created;
	time_t created;
	int64_t s;

	if (str_empty(text) || !rfc3339_read(text, &created))
		return;
	s = begun->tv_sec - created;
	if (s >= 0 && s < ATTACH_TO_STAGE_MAX_S)
		metric_observe(METRIC_ATTACH_TO_STAGE, s * INT64_C(1000000000) + begun->tv_nsec,
		               NULL);
}

int node_stage(struct node *n, const struct stage_request *r, struct deadline d, struct err *err)
{
	int64_t since = monotonic_ns();
	struct timespec begun;
	struct staging s = {
		.node = n,
		.r = r,
		.fd = -1,
		.disk_fd = -1,
		.target = MOUNT_TARGET_INIT,
		.kind = r->cap.type == ACCESS_BLOCK ? TARGET_FILE : TARGET_DIR,
		.flags = STRS_INIT,
	};
	int rc;

	clock_gettime(CLOCK_REALTIME, &begun);
	if (is_share(r) && r->cap.type == ACCESS_BLOCK)
		return err_set(err, ERR_INVALID,
		               "stage volume %s: a virtio-fs share cannot be raw block",
		               r->volume_id);
	/* Reserves time to report the cause of a timeout. */
	d = deadline_reserve(d, 1000, 5);
	rc = staging_find_path(&s, err);
	if (!rc)
		rc = parse_flags(&s, err);
	if (!rc)
		rc = check_staging_point(&s, err);
	if (!rc)
		rc = stage_by_leave(&s, d, err);
	count_stage(r, rc);
	if (!rc)
		log_staged(&s, since);
	if (!rc && s.mounted)
		count_attach_to_stage(r, &begun);
	strs_clear(&s.flags);
	mount_target_clear(&s.target);
	free(s.path);
	return rc ? err_wrap(err, "stage volume %s", r->volume_id) : 0;
}
