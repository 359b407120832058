/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an object; keeps the delays between steps. */
#include "test/sim/dpf/step.h"

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/kinds/object.h"
#include "test/sim/store/mirror.h"

/* When a delayed step is due. */
struct step_delay {
	char *uid, *stage;
	int64_t due;
	struct step_delay *next;
};

void step_put(struct dpf *d, struct object_version *v, struct json *o)
{
	struct json *old AUTO(json_free) = version_parse(v);

	if (json_equal(o, old))
		return;
	if (d->sim->mirror && mirror_has(v->res))
		mirror_write(d->sim->mirror, v, o);
	else if (object_is_deleting(o) && !object_has_finalizers(o))
		IGNORE_RESULT(store_remove(d->sim->store, v));
	else
		IGNORE_RESULT(store_put(d->sim->store, v->res, o, v, NULL));
}

void step_store(struct dpf *d, struct object_version *v, struct json *o)
{
	json_set_int(json_sub(o, "status"), "observedGeneration", object_generation(o));
	step_put(d, v, o);
}

void step_finish(struct dpf *d, struct object_version *v, struct json *o, const char *const *types)
{
	conditions_summarize(o, types);
	step_store(d, v, o);
}

bool step_claim(struct dpf *d, struct object_version *v, struct json *o, const char *finalizer)
{
	if (object_has_finalizer(o, finalizer))
		return false;
	object_add_finalizer(o, finalizer);
	step_put(d, v, o);
	return true;
}

int64_t step_delay_left(struct dpf *d, const char *uid, const char *stage, unsigned ms)
{
	int64_t now = monotonic_ns();
	struct step_delay *m = d->delays;

	if (!ms)
		return 0;
	while (m && !(str_eq(m->uid, uid) && str_eq(m->stage, stage)))
		m = m->next;
	if (m)
		return m->due > now ? (m->due - now) / 1000000 + 1 : 0;
	m = xcalloc(1, sizeof(*m));
	m->uid = xstrdup(uid);
	m->stage = xstrdup(stage);
	m->due = now + (int64_t)ms * 1000000;
	m->next = d->delays;
	d->delays = m;
	return ms;
}

void step_forget_delays(struct dpf *d, const char *uid)
{
	for (struct step_delay **at = &d->delays; *at;) {
		struct step_delay *m = *at;

		if (uid && !str_eq(m->uid, uid)) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		free(m->uid);
		free(m->stage);
		free(m);
	}
}
