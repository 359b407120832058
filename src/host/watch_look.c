/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By the record of each volume and the node's health of it. A function that was taken away leaves a
 * mount that answers with errors; it stays, so that nobody writes into the directory below, and the
 * next attach puts the new disk in its place once there is one.
 */
#include "host/watch_look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "host/attached.h"
#include "host/held.h"
#include "node/health.h"

/* What a new attach mends. */
static bool is_lost(const char *reason)
{
	static const char *const reasons[] = { "DeviceGone", "DeviceReplaced", "NotMounted",
		                               "FilesystemDead" };

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (str_eq(reasons[i], reason))
			return true;
	return false;
}

/* True: it has to be attached again, and `why` says why; else `why` is what is wrong with it. */
static bool has_to_be_attached(struct watch *w, const char *volume, const char *uid,
                               char why[FOLLOWED_WHY_MAX])
{
	struct attached is AUTO(attached_clear) = { .tree = NULL };
	struct health health = { .n = 0 };
	struct err err = ERR_INIT, held = ERR_INIT;
	char *path AUTO(free) = NULL;
	int rc = attached_read(w->a->state_dir, w->looks.boot, volume, &is, &err);

	*why = '\0';
	if (rc || !str_eq(is.uid, uid)) {
		if (!held_is(w->a->state_dir, w->looks.boot, volume, uid, &held))
			snprintf(why, FOLLOWED_WHY_MAX, "it is not attached any more");
		return rc >= 0;
	}
	path = *is.mount ? xstrdup(is.mount) : host_device_staging(w->a);
	if (node_volume_health(&w->looks.node, volume, NULL, path, &health, &err) || !health.n)
		return false;
	snprintf(why, FOLLOWED_WHY_MAX, "%s: %.280s", health.v[0].reason, health.v[0].message);
	return is_lost(health.v[0].reason);
}

/* What a look is about; the entry may be gone when it has ended. */
struct look {
	char *uid, *volume;
	bool held;
};

static struct look *take_list(struct watch *w, size_t *ret_n)
{
	struct look *list;
	size_t n = 0;

	WITH_LOCK(&w->lock);
	for (const struct followed *f = w->table.first; f; f = f->next)
		n++;
	list = xcalloc(n + 1, sizeof(*list));
	*ret_n = 0;
	for (const struct followed *f = w->table.first; f; f = f->next)
		if (!f->running && followed_step(f) == STEP_ATTACH &&
		    (f->state == FOLLOWED_ATTACHED || f->state == FOLLOWED_HELD))
			list[(*ret_n)++] = (struct look) { .uid = xstrdup(f->uid),
				                           .volume = xstrdup(f->volume),
				                           .held = f->state == FOLLOWED_HELD };
	return list;
}

static bool tell(struct watch *w, const struct look *l, bool due, const char *why)
{
	bool is_news = false;

	WITH_LOCK(&w->lock);
	for (struct followed *f = w->table.first; f; f = f->next) {
		if (!str_eq(f->uid, l->uid) || f->running || followed_step(f) != STEP_ATTACH)
			continue;
		if (due) {
			is_news = followed_again(f, why, monotonic_ns());
			w->heard = true;
			pthread_cond_broadcast(&w->changed);
		} else if (f->state == FOLLOWED_ATTACHED && !str_eq(f->why, why)) {
			snprintf(f->why, sizeof(f->why), "%s", why);
			is_news = *why;
		}
	}
	return is_news;
}

static void look_at(struct watch *w, const struct look *l)
{
	char why[FOLLOWED_WHY_MAX] = "";
	struct err ignored = ERR_INIT;
	bool due;

	if (l->held)
		due = !held_is(w->a->state_dir, w->looks.boot, l->volume, l->uid, &ignored);
	else
		due = has_to_be_attached(w, l->volume, l->uid, why);
	if ((due || !l->held) && tell(w, l, due, why) && *why)
		log_event(LOG_WARNING, "something is wrong with a volume", "volume", l->volume,
		          "fault", why, NULL);
}

static bool stops(struct watch *w)
{
	WITH_LOCK(&w->lock);
	return w->stop;
}

void watch_look(struct watch *w)
{
	size_t n;
	struct look *list AUTO(free) = take_list(w, &n);

	for (size_t i = 0; i < n; i++) {
		if (!stops(w))
			look_at(w, &list[i]);
		free(list[i].uid);
		free(list[i].volume);
	}
}
