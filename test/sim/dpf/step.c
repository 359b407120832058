/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an object in DPF's three parts; implements the delays between steps and DPF's rate. */
#include "test/sim/dpf/step.h"

#include <poll.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/kinds/object.h"
#include "test/sim/store/mirror.h"

#define FIRST_BACK_OFF_MS 5
#define ERRORS "error"

/* When a delayed step is due. */
struct step_delay {
	char *uid, *stage;
	int64_t due;
	unsigned pause_ms; /* of ERRORS: the last one */
	struct step_delay *next;
};

/* ---- writes ---- */

void step_wait_for_turn(struct dpf *d)
{
	struct pollfd end = { .fd = d->sim->stop_fd, .events = POLLIN };
	double rate = d->options->dpf_rate;

	while (rate > 0) {
		int64_t now = monotonic_ns();

		d->tokens += d->tokens_at ? (double)(now - d->tokens_at) / 1e9 * rate : rate * 1.5;
		if (d->tokens > rate * 1.5)
			d->tokens = rate * 1.5;
		d->tokens_at = now;
		if (d->tokens >= 1) {
			d->tokens -= 1;
			return;
		}
		if (poll(&end, 1, (int)((1 - d->tokens) * 1000 / rate) + 1) > 0)
			return;
	}
}

/* False: another writer was faster, or the object was deleted. */
static bool put(struct dpf *d, const struct object_version *v, struct json *o)
{
	step_wait_for_turn(d);
	if (d->sim->mirror && mirror_has(v->res)) {
		mirror_write(d->sim->mirror, v, o);
		return true;
	}
	if (object_is_deleting(o) && !object_has_finalizers(o))
		return store_remove(d->sim->store, v) == 0;
	return store_put(d->sim->store, v->res, o, v, NULL) == 0;
}

static void copy_member(struct json *to, const struct json *from, const char *parent,
                        const char *name)
{
	const struct json *value = json_member(parent ? json_at(from, parent) : from, name);
	struct json *owner = parent ? json_sub(to, parent) : to;

	if (value)
		json_set(owner, name, json_copy(value));
	else
		json_remove(owner, name);
}

static void take_conditions(struct json *to, const struct json *from)
{
	copy_member(to, from, "status", "conditions");
}

static void take_metadata(struct json *to, const struct json *from)
{
	copy_member(to, from, "metadata", "finalizers");
	copy_member(to, from, NULL, "spec");
}

static void take_status(struct json *to, const struct json *from)
{
	copy_member(to, from, NULL, "status");
}

void step_store(struct dpf *d, struct object_version *v, struct json *o)
{
	static void (*const parts[])(struct json * to, const struct json *from) = { take_conditions,
		                                                                    take_metadata,
		                                                                    take_status };
	struct object_version *now AUTO(version_unref) = version_ref(v);
	struct json *old AUTO(json_free) = version_parse(v);

	json_set_int(json_sub(o, "status"), "observedGeneration", object_generation(o));
	for (size_t i = 0; i < ARRAY_LEN(parts) && !json_equal(o, old); i++) {
		struct json *next AUTO(json_free) = json_copy(old);

		parts[i](next, o);
		if (json_equal(next, old))
			continue;
		if (!put(d, now, next))
			return;
		version_unref(now);
		now = store_get(d->sim->store, v->res, v->ns, v->name);
		if (!now || !str_eq(now->uid, v->uid))
			return;
		json_free(old);
		old = version_parse(now);
	}
}

void step_finish(struct dpf *d, struct object_version *v, struct json *o, const char *const *types)
{
	conditions_summarize(o, types);
	step_store(d, v, o);
}

bool step_claim(struct dpf *d, struct object_version *v, struct json *o, const char *finalizer,
                const char *const *types)
{
	if (object_has_finalizer(o, finalizer))
		return false;
	object_add_finalizer(o, finalizer);
	step_finish(d, v, o, types);
	return true;
}

/* ---- delays ---- */

static struct step_delay *delay_find(const struct dpf *d, const char *uid, const char *stage)
{
	struct step_delay *m = d->delays;

	while (m && !(str_eq(m->uid, uid) && str_eq(m->stage, stage)))
		m = m->next;
	return m;
}

static struct step_delay *delay_add(struct dpf *d, const char *uid, const char *stage)
{
	struct step_delay *m = xcalloc(1, sizeof(*m));

	m->uid = xstrdup(uid);
	m->stage = xstrdup(stage);
	m->next = d->delays;
	d->delays = m;
	return m;
}

int64_t step_delay_left(struct dpf *d, const char *uid, const char *stage, unsigned ms)
{
	int64_t now = monotonic_ns();
	struct step_delay *m = ms ? delay_find(d, uid, stage) : NULL;

	if (!ms)
		return 0;
	if (m)
		return m->due > now ? (m->due - now) / 1000000 + 1 : 0;
	delay_add(d, uid, stage)->due = now + (int64_t)ms * 1000000;
	return ms;
}

bool step_is_first(struct dpf *d, const char *uid, const char *stage)
{
	return !delay_find(d, uid, stage) && delay_add(d, uid, stage);
}

int64_t step_back_off(struct dpf *d, const char *uid)
{
	struct step_delay *m = delay_find(d, uid, ERRORS);
	unsigned most = d->options->back_off_ms;

	if (!m)
		m = delay_add(d, uid, ERRORS);
	m->pause_ms = m->pause_ms ? m->pause_ms * 2 : FIRST_BACK_OFF_MS;
	if (m->pause_ms > most)
		m->pause_ms = most;
	m->due = monotonic_ns() + (int64_t)m->pause_ms * 1000000;
	return m->pause_ms;
}

bool step_backs_off(const struct dpf *d, const char *uid)
{
	const struct step_delay *m = delay_find(d, uid, ERRORS);

	return m && m->due > monotonic_ns();
}

/* stage NULL: all of them. */
static void delays_forget(struct dpf *d, const char *uid, const char *stage)
{
	for (struct step_delay **at = &d->delays; *at;) {
		struct step_delay *m = *at;

		if ((uid && !str_eq(m->uid, uid)) || (stage && !str_eq(m->stage, stage))) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		free(m->uid);
		free(m->stage);
		free(m);
	}
}

void step_succeeded(struct dpf *d, const char *uid)
{
	delays_forget(d, uid, ERRORS);
}

void step_forget_delays(struct dpf *d, const char *uid)
{
	delays_forget(d, uid, NULL);
}
