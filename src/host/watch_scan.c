/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state file of each volume, and checks the volume's health. A removed function leaves a
 * mount that returns errors. The mount stays, so that no process writes to the directory below it;
 * the next attach replaces it by a mount of the new disk, once there is one.
 */
#include "host/watch_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "host/character.h"
#include "host/manual_detach.h"

/* Returns true for faults that a new attach repairs. */
static bool is_lost(const char *reason)
{
	static const char *const reasons[] = { "DeviceGone", "DeviceReplaced", "NotMounted",
		                               "FilesystemDead" };

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (str_eq(reasons[i], reason))
			return true;
	return false;
}

/* Returns true if the volume must be attached again. `why` is its fault, or "". */
static bool scan_is_lost(struct watch *w, const char *volume, const char *uid,
                         char why[TRACKED_WHY_MAX])
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct health health = { .n = 0 };
	struct err err = ERR_INIT, ignored = ERR_INIT;
	int rc = host_state_read(w->a->state_dir, w->scan_node.boot, volume, &is, &err);

	*why = '\0';
	if (rc || !str_eq(is.uid, uid)) {
		if (!manual_detach_applies(w->a->state_dir, w->scan_node.boot, volume, uid,
		                           &ignored))
			snprintf(why, TRACKED_WHY_MAX, "it is no longer attached");
		return rc >= 0;
	}
	if (host_volume_health(&w->scan_node.node, w->a, &is, &health, &err) || !health.n)
		return false;
	snprintf(why, TRACKED_WHY_MAX, "%s: %.280s", health.v[0].reason, health.v[0].message);
	return is_lost(health.v[0].reason);
}

/* The volume of one scan. Its entry may be freed while the scan runs. */
struct scan {
	char *uid, *volume;
	bool manual;
};

static struct scan *scan_collect(struct watch *w, size_t *ret_n)
{
	struct scan *list;
	size_t n = 0;

	WITH_LOCK(&w->lock);
	for (const struct tracked *f = w->table.first; f; f = f->next)
		n++;
	list = xcalloc(n + 1, sizeof(*list));
	*ret_n = 0;
	for (const struct tracked *f = w->table.first; f; f = f->next)
		if (!f->running && tracked_step(f) == STEP_ATTACH &&
		    (f->state == TRACKED_ATTACHED || f->state == TRACKED_MANUAL_DETACH))
			list[(*ret_n)++] =
				(struct scan) { .uid = xstrdup(f->uid),
				                .volume = xstrdup(f->volume),
				                .manual = f->state == TRACKED_MANUAL_DETACH };
	return list;
}

static bool scan_set_result(struct watch *w, const struct scan *l, bool due, const char *why)
{
	bool to_log = false;

	WITH_LOCK(&w->lock);
	for (struct tracked *f = w->table.first; f; f = f->next) {
		if (!str_eq(f->uid, l->uid) || f->running || tracked_step(f) != STEP_ATTACH)
			continue;
		if (due) {
			to_log = tracked_retry(f, why, monotonic_ns());
			w->notified = true;
			wait_queue_wake(&w->changed);
		} else if (f->state == TRACKED_ATTACHED && !str_eq(f->why, why)) {
			snprintf(f->why, sizeof(f->why), "%s", why);
			to_log = *why;
		}
	}
	return to_log;
}

static void scan_volume(struct watch *w, const struct scan *l)
{
	char why[TRACKED_WHY_MAX] = "";
	struct err ignored = ERR_INIT;
	bool due;

	if (l->manual)
		due = !manual_detach_applies(w->a->state_dir, w->scan_node.boot, l->volume, l->uid,
		                             &ignored);
	else
		due = scan_is_lost(w, l->volume, l->uid, why);
	if ((due || !l->manual) && scan_set_result(w, l, due, why) && *why)
		log_event(LOG_WARNING, "a volume is unhealthy", "volume", l->volume, "fault", why,
		          NULL);
}

static bool stops(struct watch *w)
{
	WITH_LOCK(&w->lock);
	return w->stop;
}

void watch_scan(struct watch *w)
{
	size_t n;
	struct scan *list AUTO(free) = scan_collect(w, &n);

	for (size_t i = 0; i < n; i++) {
		if (!stops(w))
			scan_volume(w, &list[i]);
		free(list[i].uid);
		free(list[i].volume);
	}
}
