/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table by the attachment's name. */
#include "test/sim/dpf/references.h"

#include "common/mem.h"

static void reference_free(struct reference *r)
{
	free(r->ns);
	free(r->attachment);
	free(r->volume);
	free(r->node);
	free(r);
}

static size_t bucket_of(const char *attachment)
{
	unsigned hash = 5381;

	for (const char *s = attachment; *s; s++)
		hash = hash * 33 + (unsigned char)*s;
	return hash % REFERENCE_BUCKETS;
}

void references_update(struct dpf *d, const struct object_version *v, bool exists)
{
	struct reference **at = &d->references[bucket_of(v->name)], *r;
	struct json *o AUTO(json_free) = NULL;
	const char *volume, *node;

	while (*at && !(str_eq((*at)->ns, v->ns) && str_eq((*at)->attachment, v->name)))
		at = &(*at)->next;
	if (*at && !exists) {
		r = *at;
		*at = r->next;
		reference_free(r);
		return;
	}
	if (*at || !exists)
		return; /* nothing to update: these fields of an attachment are immutable */
	o = version_parse(v);
	volume = json_str(o, "spec.dpuVolumeName");
	node = json_str(o, "spec.dpuNodeName");
	r = xcalloc(1, sizeof(*r));
	r->ns = xstrdup(v->ns);
	r->attachment = xstrdup(v->name);
	r->volume = xstrdup(volume ? volume : "");
	r->node = xstrdup(node ? node : "");
	r->next = *at; /* at is the end of the bucket */
	*at = r;
}

void references_clear(struct dpf *d)
{
	for (size_t i = 0; i < REFERENCE_BUCKETS; i++) {
		while (d->references[i]) {
			struct reference *r = d->references[i];

			d->references[i] = r->next;
			reference_free(r);
		}
	}
}

const struct reference *references_next(const struct dpf *d, const struct reference *r)
{
	size_t bucket = r ? bucket_of(r->attachment) + 1 : 0;

	if (r && r->next)
		return r->next;
	while (bucket < REFERENCE_BUCKETS && !d->references[bucket])
		bucket++;
	return bucket < REFERENCE_BUCKETS ? d->references[bucket] : NULL;
}

bool references_has_volume(const struct dpf *d, const char *ns, const char *volume)
{
	for (const struct reference *r = references_next(d, NULL); r; r = references_next(d, r))
		if (str_eq(r->ns, ns) && str_eq(r->volume, volume))
			return true;
	return false;
}
