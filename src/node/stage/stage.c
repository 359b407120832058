/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: makes the volume's device ready, once per node.
 *
 * Theory of operation. A volume on a node is in one of these states, all of which can be read from
 * the kernel (staged_disk.c):
 *
 *   absent    nothing is mounted at the staging path (filesystem) nor at <staging>/<volume id>
 *             (raw block)
 *   staged    the wanted disk or share is there: mountinfo's device number, or st_rdev of the bound
 *             node, is the number to which the publish context leads now; of a share, the tag and
 *             the number of the superblock to which the tag leads now (staged_share.c)
 *   stale     a disk or share is there that this host no longer has: it is unmounted (lazily, since
 *             it may be dead), and the volume is absent
 *   foreign   another disk, or something else, is there: stage refuses, names both and changes
 *             nothing
 *
 * Stage goes absent -> staged. It finds the device (device_wait), and stage_disk.c or stage_share.c
 * does the rest: what a volume is, its publish context says. When a step fails, what was done is
 * undone in reverse, so that a final code leaves no mount, no driver binding and no file.
 *
 * While the gate is closed (gatekeeper.h) stage only checks: what is staged stays staged, for a
 * kubelet that asks again, and nothing else is begun. When the gate closes during a stage, what it
 * waits for ends, and what it has bound is given back; a mount that has begun is finished.
 *
 * Unstage (unstage.c) goes staged -> absent. It refuses while anything else shows the disk,
 * unmounts every layer (the Go plugin stacked them), proves that nobody holds the disk, writes
 * back, and clears the function's driver override. Unmounted but still held by somebody, a volume
 * is absent for stage; unstage keeps a record until it is free (disk_record.h).
 */
#include "node/stage/stage.h"

#include <stdlib.h>

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
 * A call that is retried finds its function bound. When the gate has closed nobody may retry for
 * long; but a tool that works on the disk is not seen by device_abandon() before it has opened it.
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

/* What the gate kept from being done has its reason; what was found out without it is no matter. */
static void blame_gate(struct staging *s, struct err *err)
{
	struct err closed = ERR_INIT, first = *err;

	if (s->check_only) {
		if (!gatekeeper_check(s->node->o.gate, &closed))
			err_set(&closed, ERR_UNAVAILABLE, "the gate was closed: try again");
	} else if (staging_is_retried(first.code) &&
	           gatekeeper_withdrew(s->node->o.gate, &s->pass)) {
		err_set(&closed, ERR_UNAVAILABLE,
		        "the gate has been closed meanwhile, so the DPU's functions may be about "
		        "to change: %s",
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

	/* A share has no filesystem to choose: what the request calls it does not matter. */
	if (mount_flags_check(cap->mount_flags, cap->n_mount_flags,
	                      is_share(s->r) ? "virtiofs" : cap->fs_type, &s->flags, err))
		return err_wrap(err, "VolumeCapability.Mount.MountFlags");
	s->read_only = access_mode_is_reader_only(cap->mode) || strs_has(&s->flags, "ro");
	return 0;
}

/* Would a pod see a mount at the staging path? Asked first: the wait for the device may be long. */
static int check_staging_point(const struct staging *s, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	const struct node_options *o = &s->node->o;

	if (!o->own_mounts)
		return 0;
	return mount_table_read(o->proc_root, &t, err) || propagation_check(o, &t, s->asked, err)
	               ? -1
	               : 0;
}

/* What an operator asks first: which disk is this volume on this node? */
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

	if (is_share(r) && r->cap.type == ACCESS_BLOCK)
		return err_set(err, ERR_INVALID,
		               "stage volume %s: a virtio-fs share cannot be raw block",
		               r->volume_id);
	/* Leaves time to answer why the rest was not enough. */
	d = deadline_reserve(d, 1000, 5);
	s.asked = s.kind == TARGET_FILE ? mountpoint_block_file(r->staging_path, r->volume_id)
	                                : xstrdup(r->staging_path);
	rc = parse_flags(&s, err);
	if (!rc)
		rc = check_staging_point(&s, err);
	if (!rc)
		rc = stage_by_leave(&s, d, err);
	count_stage(r, rc);
	if (!rc)
		log_staged(&s, since);
	strs_clear(&s.flags);
	free(s.asked);
	free(s.path);
	return rc ? err_wrap(err, "stage volume %s", r->volume_id) : 0;
}
