/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the other mounts of the staged volume, in this mount namespace and in others, before it is
 * unmounted. Changes nothing.
 */
#include "node/staged/unstaging.h"

#include <stdio.h>

#include "common/cleanup.h"
#include "common/metric.h"
#include "common/thread.h"
#include "node/target/share.h"

struct holders_query unstaging_query(const struct unstaging *u)
{
	return (struct holders_query) {
		.proc_root = u->node->o.proc_root,
		.disk = u->mountpoint.disk,
		.fs = u->fs,
		.ms = u->node->o.tuning.holders_ms,
		.files = u->node->o.tuning.holders_files,
	};
}

/*
 * Returns the object that an operator can inspect on the host: the disk's device node, or the path.
 */
static const char *unstaging_shown(const struct unstaging *u)
{
	return *u->dev.path ? u->dev.path : u->mountpoint.path;
}

static const struct mount *next_elsewhere(const struct unstaging *u, const struct mount *after)
{
	if (u->mountpoint.kind == MOUNTPOINT_SHARE)
		return share_elsewhere(u->node, u->table, &u->mountpoint, NULL, false, after);
	return mountpoint_elsewhere(u->table, &u->mountpoint, NULL, false, after);
}

FRAME_OF_ITS_OWN int unstaging_refuse_published(const struct unstaging *u, struct err *err)
{
	const struct mount *m = next_elsewhere(u, NULL);
	char others[40] = "";
	unsigned more = 0;

	if (!m)
		return 0;
	for (const struct mount *o = m; (o = next_elsewhere(u, o));)
		more++;
	if (more)
		snprintf(others, sizeof(others), " and %u more place%s", more,
		         more == 1 ? "" : "s");
	metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("published"));
	err_set(err, ERR_PRECONDITION,
	        "its %s is still mounted at %s%s: end the pod%s, or unmount it there",
	        u->mountpoint.kind == MOUNTPOINT_SHARE ? "share" : "disk", m->target, others,
	        more ? "s that use it" : " that uses it");
	return err_set_kind(err, ERR_KIND_HELD);
}

/* Returns true if mounts and unmounts at the staging path propagate to other namespaces. */
static bool is_shared_here(const struct unstaging *u)
{
	for (size_t i = 0; i < u->table->n; i++)
		if (u->table->v[i].id == u->mountpoint.m->parent_id)
			return u->table->v[i].shared;
	return true;
}

/*
 * For a share, this is the only check; for a disk, an exclusive open after the unmount checks
 * again.
 */
FRAME_OF_ITS_OWN int unstaging_refuse_captured(const struct unstaging *u, struct deadline d,
                                               struct err *err)
{
	struct deadline end = deadline_clamp(d, u->node->o.tuning.unstaging_ms);
	struct holders_query q = unstaging_query(u);

	q.captured = true;
	q.exhaustive = u->mountpoint.kind == MOUNTPOINT_SHARE;
	q.unshared = !is_shared_here(u);
	for (;;) {
		struct str text AUTO(str_clear) = STR_INIT(600);
		struct holders h AUTO(holders_clear) = { 0 };
		struct err ignored = ERR_INIT;

		holders_find(&q, d, &h);
		if (!h.n && q.exhaustive && !holders_saw_all(&h)) {
			holders_describe(&h, &q, unstaging_shown(u), &text);
			return err_set(err, ERR_UNAVAILABLE,
			               "could not determine whether its share is mounted in "
			               "another mount namespace: %s",
			               text.ptr);
		}
		if (!h.n)
			return 0;
		if (deadline_sleep(end, UNSTAGING_STEP_MS, &ignored, "") == 0)
			continue;
		holders_describe(&h, &q, unstaging_shown(u), &text);
		metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("mount"));
		err_set(err, ERR_PRECONDITION,
		        "its filesystem is still mounted in another mount namespace or container; "
		        "it stays staged; %s",
		        text.ptr);
		return err_set_kind(err, ERR_KIND_HELD);
	}
}
