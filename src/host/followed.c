/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list, since a host has a few dozen attachments at most, and each event is looked up once. Owns
 * the entries; does not do the steps.
 */
#include "host/followed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/mem.h"

#define PAUSE_MS 1000

static struct followed *find(struct followed_table *t, const char *uid)
{
	for (struct followed *f = t->first; f; f = f->next)
		if (str_eq(f->uid, uid))
			return f;
	return NULL;
}

/* At the end: of two for one volume the first that was told of has it. */
static struct followed *add(struct followed_table *t, const char *name, const char *uid,
                            const char *volume)
{
	struct followed **at = &t->first, *f = xcalloc(1, sizeof(*f));

	while (*at)
		at = &(*at)->next;
	f->name = xstrdup(name);
	f->uid = xstrdup(uid);
	f->volume = xstrdup(volume);
	f->due_at = FOLLOWED_NEVER;
	cancel_init(&f->cancel);
	*at = f;
	return f;
}

static void drop(struct followed_table *t, struct followed *f)
{
	struct followed **at = &t->first;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	cancel_destroy(&f->cancel);
	free(f->name);
	free(f->uid);
	free(f->volume);
	free(f);
}

/* Something is another way now: at once, and without the pauses of before. */
static void set_due(struct followed *f, int64_t now)
{
	f->failures = 0;
	f->due_at = now;
	if (!f->running)
		return;
	f->changed = true;
	if (f->doing == STEP_ATTACH && followed_step(f) != STEP_ATTACH)
		cancel_set(&f->cancel);
}

/* ---- what is told ---- */

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

void followed_begin(struct followed_table *t)
{
	for (struct followed *f = t->first; f; f = f->next)
		f->listed = false;
}

void followed_complete(struct followed_table *t, int64_t now)
{
	for (struct followed *f = t->first; f; f = f->next)
		if (!f->listed && !f->gone && !f->missing) {
			f->missing = true;
			set_due(f, now);
		}
}

static void end_others_of_the_name(struct followed_table *t, const struct dpu_attachment_key *key,
                                   int64_t now)
{
	for (struct followed *f = t->first; f; f = f->next)
		if (str_eq(f->name, key->name) && !str_eq(f->uid, key->uid))
			followed_gone(t, f->uid, now);
}

void followed_told(struct followed_table *t, const struct attachment_file *a, int64_t now)
{
	struct followed *f = find(t, a->is.key.uid);
	struct str why AUTO(str_clear) = STR_INIT(FOLLOWED_WHY_MAX - 1);
	char facts[33];

	if (!f) {
		/* These fields of an object that cannot be judged may not be valid names. */
		if (!dns1123_subdomain(a->is.key.name) || !dns1123_subdomain(a->is.key.volume))
			return;
		end_others_of_the_name(t, &a->is.key, now);
		f = add(t, a->is.key.name, a->is.key.uid, a->is.key.volume);
	}
	f->listed = true;
	f->missing = false;
	f->ready = attachment_is_ready(a, &why);
	f->deleting = a->is.key.deleting;
	if (!f->ready && f->state != FOLLOWED_ATTACHED)
		snprintf(f->why, sizeof(f->why), "%s", why.ptr);
	hash_facts(a, f->ready, facts);
	if (str_eq(facts, f->facts))
		return;
	memcpy(f->facts, facts, sizeof(facts));
	set_due(f, now);
}

void followed_remember(struct followed_table *t, const char *name, const char *uid,
                       const char *volume, int64_t now)
{
	struct followed *f;

	if (find(t, uid))
		return;
	f = add(t, name, uid, volume);
	f->missing = true;
	set_due(f, now);
}

void followed_gone(struct followed_table *t, const char *uid, int64_t now)
{
	struct followed *f = find(t, uid);

	if (!f || f->gone)
		return;
	f->gone = true;
	f->missing = false;
	set_due(f, now);
}

void followed_found(struct followed *f)
{
	f->missing = false;
	f->changed = true;
}

/* ---- steps ---- */

enum followed_step followed_step(const struct followed *f)
{
	if (f->gone || f->missing || f->deleting)
		return STEP_DETACH;
	return f->ready ? STEP_ATTACH : STEP_NOTHING;
}

/* Does this other attachment have the volume, or has it not let it go yet? */
static bool comes_first(const struct followed *g)
{
	if (g->running)
		return true;
	if (followed_step(g) == STEP_DETACH)
		return g->state != FOLLOWED_DETACHED || g->due_at != FOLLOWED_NEVER;
	return g->state == FOLLOWED_ATTACHED;
}

static bool may_run(struct followed_table *t, struct followed *f)
{
	for (const struct followed *g = t->first; g; g = g->next) {
		if (g == f || !str_eq(g->volume, f->volume) || !comes_first(g))
			continue;
		if (followed_step(f) == STEP_DETACH && !g->running)
			continue;
		snprintf(f->why, sizeof(f->why), "attachment %s has this volume", g->name);
		return false;
	}
	return true;
}

struct followed *followed_due(struct followed_table *t, int64_t now, int64_t *ret_at)
{
	struct followed *due = NULL;
	int64_t at = FOLLOWED_NEVER;

	for (struct followed *f = t->first; f; f = f->next) {
		if (f->running || f->due_at == FOLLOWED_NEVER)
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

void followed_rest(struct followed *f)
{
	f->due_at = FOLLOWED_NEVER;
	f->tried = true;
	if (f->state == FOLLOWED_FAILED)
		f->state = FOLLOWED_WAITING;
}

void followed_run(struct followed *f, int64_t now)
{
	f->running = true;
	f->doing = followed_step(f);
	f->changed = false;
	f->since = now;
	f->due_at = FOLLOWED_NEVER;
	cancel_destroy(&f->cancel);
	cancel_init(&f->cancel);
}

static int64_t pause_ms(unsigned failures)
{
	int64_t ms = failures > 5 ? FOLLOWED_PAUSE_MOST_MS : (int64_t)PAUSE_MS << (failures - 1);

	return ms > FOLLOWED_PAUSE_MOST_MS ? FOLLOWED_PAUSE_MOST_MS : ms;
}

static bool set_why(struct followed *f, enum followed_state state, const char *why)
{
	bool is_news = f->state != state || strncmp(f->why, why, sizeof(f->why) - 1) != 0;

	f->state = state;
	snprintf(f->why, sizeof(f->why), "%s", why);
	return is_news;
}

bool followed_done(struct followed_table *t, struct followed *f, enum followed_state state,
                   const char *why, int64_t now)
{
	bool is_news;

	f->running = false;
	f->tried = true;
	if (f->changed) {
		f->due_at = now;
		f->failures = 0;
	} else if (state == FOLLOWED_FAILED) {
		f->due_at = now + pause_ms(++f->failures) * NS_PER_MS;
	} else {
		f->failures = 0;
	}
	is_news = set_why(f, state, why);
	if (f->gone && state == FOLLOWED_DETACHED)
		drop(t, f);
	return is_news;
}

bool followed_again(struct followed *f, const char *why, int64_t now)
{
	if (f->running || f->due_at != FOLLOWED_NEVER)
		return false;
	f->due_at = now;
	return set_why(f, FOLLOWED_FAILED, why);
}

void followed_clear(struct followed_table *t)
{
	while (t->first)
		drop(t, t->first);
}
