/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gauges of this host for /metrics. Reads the host each time and caches nothing; a gauge whose
 * value cannot be read keeps its last value. Only accesses mounts of filesystem types that the
 * driver mounts.
 */
#include "node/host/count.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/device/device_states.h"
#include "node/device/sysfs.h"
#include "node/work/job.h"
#include "node/host/max_volumes.h"
#include "node/target/paths.h"

static void count_limit(const struct node *n)
{
	static const char *const sources[] = {
		[MAX_VOLUMES_SET] = "set",
		[MAX_VOLUMES_COUNTED] = "counted",
		[MAX_VOLUMES_LAST_KNOWN] = "last known",
		[MAX_VOLUMES_GUESSED] = "guessed",
	};
	struct max_volumes max;

	max_volumes_count(n, &max);
	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		if (sources[i])
			metric_set(METRIC_VOLUMES_MAX, i == max.source ? max.n : 0,
			           LABELS(sources[i]));
}

static int64_t counted_functions(void)
{
	int64_t sum = 0;

	for (size_t i = 0; i < DEVICE_STATES; i++) {
		const char *state = device_state_name((enum device_state)i);

		sum += metric_value(METRIC_FUNCTIONS, LABELS("vf", state)) +
		       metric_value(METRIC_FUNCTIONS, LABELS("slot", state));
	}
	return sum;
}

static void count_host_functions(const struct node *n)
{
	int64_t before = counted_functions();
	struct device_states seen;
	struct err ignored = ERR_INIT;

	if (device_count_states(&n->o.world, &seen, &ignored))
		return;
	for (size_t i = 0; i < DEVICE_STATES; i++) {
		if (i != DEVICE_STATE_EMPTY && i != DEVICE_STATE_OTHER_FUNCTION)
			metric_set(METRIC_FUNCTIONS, seen.vfs[i],
			           LABELS("vf", device_state_name((enum device_state)i)));
		metric_set(METRIC_FUNCTIONS, seen.slots[i],
		           LABELS("slot", device_state_name((enum device_state)i)));
	}
	metric_add(METRIC_DPU_RESETS, before && !counted_functions(), NULL);
}

static bool is_ours(const struct node *n, const struct mountpoint *p, struct device *dev)
{
	struct err ignored = ERR_INIT;

	if (p->kind == MOUNTPOINT_SHARE)
		return true;
	return (p->kind == MOUNTPOINT_FILESYSTEM || p->kind == MOUNTPOINT_BLOCK) &&
	       device_by_number(&n->o.world, p->disk, dev, &ignored) == 0 && dev->kind;
}

/* The disks and shares that have been counted. */
struct seen {
	dev_t *v;
	size_t n;
};

/*
 * Returns true at the first call for this disk. A volume is mounted at its staging path and once
 * for each pod.
 */
static bool is_new(struct seen *seen, dev_t disk)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->v[i] == disk)
			return false;
	seen->v = xrealloc(seen->v, (seen->n + 1) * sizeof(*seen->v));
	seen->v[seen->n++] = disk;
	return true;
}

void node_each_staged(struct node *n, node_staged_fn *fn, void *arg)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct seen seen = { NULL, 0 };
	struct err ignored = ERR_INIT;

	if (mount_table_read(n->o.proc_root, &t, &ignored))
		return;
	for (size_t i = 0; i < t.n; i++) {
		struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
		struct device dev = { .kind = NULL };

		err_clear(&ignored);
		if (mountpoint_may_be_volume(&t.v[i]) && paths_allowed(&n->o, t.v[i].target) &&
		    !mountpoint_read(&t, t.v[i].target, &p, &ignored) &&
		    p.kind != MOUNTPOINT_NONE && is_new(&seen, p.disk) && is_ours(n, &p, &dev))
			fn(arg, &p, &dev);
	}
	free(seen.v);
}

static void count_one(void *arg, const struct mountpoint *p, const struct device *dev)
{
	(void)p;
	(void)dev;
	(*(int64_t *)arg)++;
}

static int64_t staged(struct node *n)
{
	int64_t count = 0;

	node_each_staged(n, count_one, &count);
	return count;
}

/*
 * Returns true if the mount may belong to this driver. This includes a disk that was removed or
 * cannot be read, because its owner is then unknown.
 */
static bool may_be_staged(const struct node *n, const struct mountpoint *p)
{
	struct err ignored = ERR_INIT;
	struct device dev = { .kind = NULL };

	if (p->kind != MOUNTPOINT_FILESYSTEM && p->kind != MOUNTPOINT_BLOCK)
		return p->kind == MOUNTPOINT_SHARE;
	return device_by_number(&n->o.world, p->disk, &dev, &ignored) != 0 || dev.kind;
}

bool node_may_have_staged(const struct node *n)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err ignored = ERR_INIT;

	if (mount_table_read(n->o.proc_root, &t, &ignored))
		return true;
	for (size_t i = 0; i < t.n; i++) {
		struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;

		err_clear(&ignored);
		if (mountpoint_may_be_volume(&t.v[i]) && paths_allowed(&n->o, t.v[i].target) &&
		    (mountpoint_read(&t, t.v[i].target, &p, &ignored) || may_be_staged(n, &p)))
			return true;
	}
	return false;
}

bool node_has_functions(const struct node *n, struct str *why)
{
	struct max_volumes max;

	max_volumes_count(n, &max);
	if (max.source == MAX_VOLUMES_GUESSED)
		str_addf(why, "%s: %s",
		         max.uncounted ? "they cannot be counted, and no earlier count exists"
		                       : "the DPU offers this host none, and never has",
		         max.where);
	return max.source != MAX_VOLUMES_GUESSED;
}

void node_count_hung(const struct node *n)
{
	struct strs ignored AUTO(strs_clear) = STRS_INIT;

	jobs_old(n->jobs, &ignored); /* updates METRIC_JOBS_OLD */
	metric_set(METRIC_SYSFS_HUNG, (int64_t)sysfs_hung(device_hang_ms(&n->o.world), NULL), NULL);
}

void node_count(struct node *n)
{
	count_limit(n);
	count_host_functions(n);
	metric_set(METRIC_VOLUMES_STAGED, staged(n), NULL);
}
