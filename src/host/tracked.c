/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table is a list, because a host has a few dozen attachments at most, and each event causes
 * one search. Owns the entries; does not run the steps.
 */
#include "host/tracked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/mem.h"

#define PAUSE_MS 1000

static struct tracked *tracked_find(struct tracked_table *t, const char *uid)
{
	for (struct tracked *f = t->first; f; f = f->next)
		if (str_eq(f->uid, uid))
			return f;
	return NULL;
}

/*
 * Appends an entry, so that if two attachments have the same volume, the first one reported gets
 * it.
 */
static struct tracked *tracked_add(struct tracked_table *t, const char *name, const char *uid,
                                   const char *volume)
{
	struct tracked **at = &t->first, *f = xcalloc(1, sizeof(*f));

	while (*at)
		at = &(*at)->next;
	f->name = xstrdup(name);
	f->uid = xstrdup(uid);
	f->volume = xstrdup(volume);
	f->due_at = TRACKED_NEVER;
	cancel_init(&f->cancel);
	*at = f;
	return f;
}

static void tracked_drop(struct tracked_table *t, struct tracked *f)
{
	struct tracked **at = &t->first;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	cancel_destroy(&f->cancel);
	free(f->name);
	free(f->uid);
	free(f->volume);
	free(f);
}

/* Makes the step of a changed entry due at once, without the back-off of earlier failures. */
static void set_due(struct tracked *f, int64_t now)
{
	f->failures = 0;
	f->due_at = now;
	if (!f->running)
		return;
	f->changed = true;
	if (f->doing == STEP_ATTACH && tracked_step(f) != STEP_ATTACH)
		cancel_set(&f->cancel);
}

/* ---- events ---- */

static void add_fact(struct str *s, const char *text)
{
	str_addf(s, "%zu:%s", strlen(text), text);
}

static void hash_facts(const struct attachment_file *f, bool ready, char ret[33])
{
	struct str s AUTO(str_clear) = STR_INIT(1024 * 1024);

	add_fact(&s, f->is.function_type);
	add_fact(&s, f->is.pci_address);
	add_fact(&s, f->is.func_vuid);
	add_fact(&s, f->is.nvme_uuid);
	add_fact(&s, f->is.virtiofs_tag);
	str_addf(&s, "%lld %d %d %d %d", (long long)f->is.nvme_nsid, f->kind, f->is.hotplug, ready,
	         f->is.key.deleting);
	fnv128_hex(s.ptr, "", ret);
}

void tracked_list_begin(struct tracked_table *t)
{
	for (struct tracked *f = t->first; f; f = f->next)
		f->listed = false;
}

void tracked_list_end(struct tracked_table *t, int64_t now)
{
	for (struct tracked *f = t->first; f; f = f->next)
		if (!f->listed && !f->gone && !f->missing) {
			f->missing = true;
			set_due(f, now);
		}
}

static void end_others_of_the_name(struct tracked_table *t, const struct dpu_attachment_key *key,
                                   int64_t now)
{
	for (struct tracked *f = t->first; f; f = f->next)
		if (str_eq(f->name, key->name) && !str_eq(f->uid, key->uid))
			tracked_gone(t, f->uid, now);
}

void tracked_update(struct tracked_table *t, const struct attachment_file *a, int64_t now)
{
	struct tracked *f = tracked_find(t, a->is.key.uid);
	struct str why AUTO(str_clear) = STR_INIT(TRACKED_WHY_MAX - 1);
	char facts[33];

	if (!f) {
		/* The fields of an invalid object may not be valid names. */
		if (!dns1123_subdomain(a->is.key.name) || !dns1123_subdomain(a->is.key.volume))
			return;
		end_others_of_the_name(t, &a->is.key, now);
		f = tracked_add(t, a->is.key.name, a->is.key.uid, a->is.key.volume);
	}
	f->listed = true;
	f->missing = false;
	f->ready = attachment_is_ready(a, &why);
	f->deleting = a->is.key.deleting;
	if (!f->ready && f->state != TRACKED_ATTACHED)
		snprintf(f->why, sizeof(f->why), "%s", why.ptr);
	hash_facts(a, f->ready, facts);
	if (str_eq(facts, f->facts))
		return;
	memcpy(f->facts, facts, sizeof(facts));
	set_due(f, now);
}

void tracked_restore(struct tracked_table *t, const char *name, const char *uid, const char *volume,
                     int64_t now)
{
	struct tracked *f;

	if (tracked_find(t, uid))
		return;
	f = tracked_add(t, name, uid, volume);
	f->missing = true;
	set_due(f, now);
}

void tracked_gone(struct tracked_table *t, const char *uid, int64_t now)
{
	struct tracked *f = tracked_find(t, uid);

	if (!f || f->gone)
		return;
	f->gone = true;
	f->missing = false;
	set_due(f, now);
}

void tracked_found(struct tracked *f)
{
	f->missing = false;
	f->changed = true;
}

/* ---- steps ---- */

enum tracked_step tracked_step(const struct tracked *f)
{
	if (f->gone || f->missing || f->deleting)
		return STEP_DETACH;
	return f->ready ? STEP_ATTACH : STEP_NOTHING;
}

/* Returns true if this other attachment has the volume, or has not yet released it. */
static bool comes_first(const struct tracked *g)
{
	if (g->running)
		return true;
	if (tracked_step(g) == STEP_DETACH)
		return g->state != TRACKED_DETACHED || g->due_at != TRACKED_NEVER;
	return g->state == TRACKED_ATTACHED;
}

static bool may_run(struct tracked_table *t, struct tracked *f)
{
	for (const struct tracked *g = t->first; g; g = g->next) {
		if (g == f || !str_eq(g->volume, f->volume) || !comes_first(g))
			continue;
		if (tracked_step(f) == STEP_DETACH && !g->running)
			continue;
		snprintf(f->why, sizeof(f->why), "attachment %s already provides this volume",
		         g->name);
		return false;
	}
	return true;
}

struct tracked *tracked_due(struct tracked_table *t, int64_t now, int64_t *ret_at)
{
	struct tracked *due = NULL;
	int64_t at = TRACKED_NEVER;

	for (struct tracked *f = t->first; f; f = f->next) {
		if (f->running || f->due_at == TRACKED_NEVER)
			continue;
		if (f->due_at > now)
			at = f->due_at < at ? f->due_at : at;
		else if (!due && may_run(t, f))
			due = f;
	}
	if (ret_at)
		*ret_at = at;
	return due;
}

void tracked_idle(struct tracked *f)
{
	f->due_at = TRACKED_NEVER;
	f->tried = true;
	if (f->state == TRACKED_FAILED)
		f->state = TRACKED_WAITING;
}

void tracked_start(struct tracked *f, int64_t now)
{
	f->running = true;
	f->doing = tracked_step(f);
	f->changed = false;
	f->since = now;
	f->due_at = TRACKED_NEVER;
	cancel_destroy(&f->cancel);
	cancel_init(&f->cancel);
}

static int64_t pause_ms(unsigned failures)
{
	int64_t ms = failures > 5 ? TRACKED_PAUSE_MOST_MS : (int64_t)PAUSE_MS << (failures - 1);

	return ms > TRACKED_PAUSE_MOST_MS ? TRACKED_PAUSE_MOST_MS : ms;
}

static bool set_why(struct tracked *f, enum tracked_state state, const char *why)
{
	bool to_log = f->state != state || strncmp(f->why, why, sizeof(f->why) - 1) != 0;

	f->state = state;
	snprintf(f->why, sizeof(f->why), "%s", why);
	return to_log;
}

bool tracked_done(struct tracked_table *t, struct tracked *f, enum tracked_state state,
                  const char *why, int64_t now)
{
	bool to_log;

	f->running = false;
	f->tried = true;
	if (f->changed) {
		f->due_at = now;
		f->failures = 0;
	} else if (state == TRACKED_FAILED) {
		f->due_at = now + pause_ms(++f->failures) * NS_PER_MS;
	} else {
		f->failures = 0;
	}
	to_log = set_why(f, state, why);
	if (f->gone && state == TRACKED_DETACHED)
		tracked_drop(t, f);
	return to_log;
}

bool tracked_retry(struct tracked *f, const char *why, int64_t now)
{
	if (f->running || f->due_at != TRACKED_NEVER)
		return false;
	f->due_at = now;
	return set_why(f, TRACKED_FAILED, why);
}

void tracked_clear(struct tracked_table *t)
{
	while (t->first)
		tracked_drop(t, t->first);
}
