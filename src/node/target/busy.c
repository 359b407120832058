/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmounts, and finds out why a mount is busy. Retries for a moment, because many users of a mount
 * end soon: this driver's own probe of the filesystem, a backup, a du. Then searches, in this
 * order, for a mount below it, a loop device that is backed by it or by one of its files, a swap
 * file, and processes that use this mount. Processes that use other mounts of the disk do not keep
 * this mount busy; an overlay keeps the disk busy, but not a mount. Owns nothing.
 */
#include "node/target/busy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/thread.h"
#include "node/holders/holders.h"
#include "node/holders/loops.h"

#define BUSY_STEP_MS 20
#define SWAPS_MAX 65536

static const struct mount *mount_below(const struct mount_table *t, const struct mount *m)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].parent_id == m->id && t->v[i].id != m->id)
			return &t->v[i];
	return NULL;
}

/*
 * Adds the first swap file on this filesystem. Returns false if there is no swap file. Source:
 * proc(5), swaps.
 */
static bool add_swap_file(const struct node *n, const struct mount_table *t, const struct mount *m,
                          struct str *text)
{
	char *path AUTO(free) = xasprintf("%s/swaps", n->o.proc_root), *all AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (file_read(path, SWAPS_MAX, &all, NULL, &ignored))
		return false;
	for (char *rest = all, *line; (line = strsep(&rest, "\n"));) {
		const struct mount *on;

		line[strcspn(line, " \t")] = '\0';
		on = *line == '/' ? mount_containing(t, line) : NULL;
		if (!on || on->devno != m->devno)
			continue;
		str_addf(text, "the swap file %s is on it (swapoff frees it)", line);
		return true;
	}
	return false;
}

static void describe_processes(const struct node *n, const struct mountpoint *p,
                               const struct mount *m, struct deadline d, struct str *text)
{
	const struct holders_query q = {
		.proc_root = n->o.proc_root,
		.disk = p->disk,
		.fs = p->kind == MOUNTPOINT_BLOCK ? 0 : m->devno,
		.mount_id = m->id,
		.ms = n->o.tuning.holders_ms,
		.files = n->o.tuning.holders_files,
	};
	struct holders h AUTO(holders_clear) = { 0 };

	holders_find(&q, d, &h);
	holders_describe(&h, &q, m->target, text);
}

FRAME_OF_ITS_OWN static int busy_explain(const struct node *n, const struct mountpoint *p,
                                         struct deadline d, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct strs used AUTO(strs_clear) = STRS_INIT, idle AUTO(strs_clear) = STRS_INIT;
	struct str text AUTO(str_clear) = STR_INIT(600);
	/* none, because partitions do not keep this mount busy */
	const struct partitions none = PARTITIONS_INIT;
	struct err ignored = ERR_INIT;
	const struct mount *m, *below;

	err_set_kind(err, ERR_KIND_HELD);
	if (mount_table_read(n->o.proc_root, &t, &ignored) || !(m = mount_at(&t, p->path)))
		return -1;
	below = mount_below(&t, m);
	if (below) {
		metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("mount"));
		return err_wrap(err, "%s is mounted below it", below->target);
	}
	if (p->kind != MOUNTPOINT_SHARE)
		IGNORE_RESULT(loops_over(&n->o.world, &t,
		                         p->kind == MOUNTPOINT_BLOCK ? p->disk : m->devno, &none,
		                         &used, &idle, &ignored));
	if (used.n + idle.n) {
		metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("loop device"));
		return err_wrap(err, "the loop device %s uses it (losetup -d frees it)",
		                used.n ? used.v[0] : idle.v[0]);
	}
	if (add_swap_file(n, &t, m, &text)) {
		metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("process"));
		return err_wrap(err, "%s", text.ptr);
	}
	metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("process"));
	describe_processes(n, p, m, d, &text);
	return err_wrap(err, "%s", text.ptr);
}

/* Waits before a retry. Returns false if the deadline has passed. */
FRAME_OF_ITS_OWN static bool wait_a_step(struct deadline end)
{
	struct err ignored = ERR_INIT;

	return deadline_sleep(end, BUSY_STEP_MS, &ignored, "") == 0;
}

int busy_unmount(const struct node *n, const struct mountpoint *p, bool lazy, struct deadline d,
                 struct err *err)
{
	struct deadline end = deadline_clamp(d, n->o.tuning.busy_ms);

	for (;;) {
		if (mountpoint_unmount(p, n->o.proc_root, lazy, err) == 0)
			return 0;
		if (err->sys != EBUSY)
			return -1;
		if (!wait_a_step(end))
			return busy_explain(n, p, d, err);
		err_clear(err);
	}
}
