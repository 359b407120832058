/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the writes in an array that is searched linearly. The array is empty unless the API server
 * does not answer, and is searched only for absent objects.
 */
#include "kube/kube_indeterminate.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/keyed_hash.h"
#include "common/mem.h"

void kube_indeterminate_init(struct kube_indeterminate *d, int late_ms)
{
	*d = (struct kube_indeterminate) { .late_ns = late_ms * INT64_C(1000000) };
	pthread_mutex_init(&d->lock, NULL);
}

void kube_indeterminate_destroy(struct kube_indeterminate *d)
{
	pthread_mutex_destroy(&d->lock);
	free(d->v);
}

/* If two objects have the same hash, both are indeterminate together, which is harmless. */
static uint64_t object_hash(const struct kube_kind *kind, const char *ns, const char *name)
{
	static const struct hash_key key;
	char *text AUTO(free) = xasprintf("%s/%s/%s", kind->plural, ns ? ns : "", name);

	return keyed_hash(&key, text, strlen(text));
}

static bool in_gap_locked(const struct kube_indeterminate *d, int64_t now)
{
	return d->unanswered && now - d->answered_at >= 2 * d->late_ns;
}

void kube_indeterminate_response(struct kube_indeterminate *d, bool answered, int64_t now)
{
	WITH_LOCK(&d->lock);
	if (!answered) {
		d->unanswered = true;
		return;
	}
	if (in_gap_locked(d, now))
		d->gap_until = now + d->late_ns;
	d->answered_at = now;
	d->unanswered = false;
}

/* Returns true if all entries are kept because of a gap. */
static bool all_stay_locked(const struct kube_indeterminate *d, int64_t now)
{
	return in_gap_locked(d, now) || now < d->gap_until;
}

static void indeterminate_drop_old_locked(struct kube_indeterminate *d, int64_t now)
{
	size_t kept = 0;

	assert_locked(&d->lock);
	if (all_stay_locked(d, now))
		return;
	if (d->all_until <= now)
		d->all_until = 0;
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].until > now)
			d->v[kept++] = d->v[i];
	d->n = kept;
	if (kept)
		return;
	free(TAKE(d->v));
	d->room = 0;
}

void kube_indeterminate_add(struct kube_indeterminate *d, const struct kube_kind *kind,
                            const char *ns, const char *name, int64_t now, int64_t until)
{
	WITH_LOCK(&d->lock);
	if (d->n == d->room)
		indeterminate_drop_old_locked(d, now);
	if (d->n == KUBE_INDETERMINATE_MAX) {
		if (d->all_until < until)
			d->all_until = until;
		return;
	}
	if (d->n == d->room) {
		d->room = d->room ? 2 * d->room : 16;
		d->v = xrealloc(d->v, d->room * sizeof(*d->v));
	}
	d->v[d->n++] = (struct kube_indeterminate_write) { .object = object_hash(kind, ns, name),
		                                           .until = until };
}

bool kube_indeterminate_has(struct kube_indeterminate *d, const struct kube_kind *kind,
                            const char *ns, const char *name, int64_t now)
{
	uint64_t object = object_hash(kind, ns, name);

	WITH_LOCK(&d->lock);
	indeterminate_drop_old_locked(d, now);
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].object == object)
			return true;
	return d->all_until != 0;
}
