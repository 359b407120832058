/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a report: volumes by id, and findings. Owns the tree and the index of its volumes;
 * knows neither the host nor the API server.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "common/mem.h"
#include "inspect/inspect.h"

/* Open addressing; at most half of the places are taken. */
struct inspect_index {
	size_t n, places; /* places is a power of two */
	struct json **v;  /* members of the tree's volumes; NULL: free */
};

static uint64_t index_hash(const char *id)
{
	uint64_t h = 14695981039346656037U; /* FNV-1a */

	while (*id)
		h = (h ^ (unsigned char)*id++) * 1099511628211U;
	return h;
}

/* Where this volume is, or belongs. */
static struct json **index_place(const struct inspect_index *x, const char *id)
{
	size_t i = index_hash(id) & (x->places - 1);

	while (x->v[i] && !str_eq(json_str(x->v[i], "id"), id))
		i = (i + 1) & (x->places - 1);
	return &x->v[i];
}

static void index_grow(struct inspect_index *x)
{
	struct inspect_index larger = { .n = x->n, .places = x->places ? x->places * 2 : 64 };

	larger.v = xcalloc(larger.places, sizeof(struct json *));
	for (size_t i = 0; i < x->places; i++)
		if (x->v[i])
			*index_place(&larger, json_str(x->v[i], "id")) = x->v[i];
	free(x->v);
	*x = larger;
}

void inspect_report_init(struct inspect_report *r)
{
	char now[32] = "", host[256] = "";
	time_t t = time(NULL);
	struct tm tm;

	*r = (struct inspect_report) { .tree = json_object() };
	if (gmtime_r(&t, &tm))
		strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (gethostname(host, sizeof(host) - 1))
		host[0] = '\0';
	json_set_str(r->tree, "time", now);
	json_set_str(r->tree, "host", host);
	json_set(r->tree, "findings", json_array());
	r->index = xcalloc(1, sizeof(*r->index));
}

void inspect_report_clear(struct inspect_report *r)
{
	if (r->index)
		free(r->index->v);
	free(r->index);
	json_free(r->tree);
	*r = (struct inspect_report) { .tree = NULL };
}

struct json *inspect_list(struct json *object, const char *name)
{
	if (!json_is_array(json_member(object, name)))
		json_set(object, name, json_array());
	return json_at_mut(object, name);
}

struct json *inspect_volume(struct inspect_report *r, const char *id)
{
	struct json **place;

	if (r->index->n * 2 >= r->index->places)
		index_grow(r->index);
	place = index_place(r->index, id);
	if (!*place) {
		*place = json_object();
		json_set_str(*place, "id", id);
		json_append(inspect_list(r->tree, "volumes"), *place);
		r->index->n++;
	}
	return *place;
}

struct json *inspect_volume_known(const struct inspect_report *r, const char *id)
{
	return r->index->places ? *index_place(r->index, id) : NULL;
}

void inspect_finding(struct inspect_report *r, const char *object, const char *next,
                     const char *what, ...)
{
	struct str text AUTO(str_clear) = STR_INIT(4000);
	struct json *finding = json_object();
	char *made;
	va_list ap;

	va_start(ap, what);
	if (vasprintf(&made, what, ap) < 0)
		abort();
	va_end(ap);
	str_add_shown(&text, made);
	free(made);
	json_set_str(finding, "object", object);
	json_set_str(finding, "what", text.ptr);
	json_set_str(finding, "next", next);
	json_append(inspect_list(r->tree, "findings"), finding);
	r->n_findings++;
}

const char *inspect_age(int64_t seconds, char buf[64])
{
	static const struct {
		int64_t seconds;
		const char *unit;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	size_t i = 0;

	if (seconds < 0)
		seconds = 0;
	while (i + 1 < ARRAY_LEN(units) && seconds < units[i].seconds)
		i++;
	if (i + 1 < ARRAY_LEN(units) && seconds % units[i].seconds >= units[i + 1].seconds)
		snprintf(buf, 64, "%lld %s %lld %s", (long long)(seconds / units[i].seconds),
		         units[i].unit,
		         (long long)(seconds % units[i].seconds / units[i + 1].seconds),
		         units[i + 1].unit);
	else
		snprintf(buf, 64, "%lld %s", (long long)(seconds / units[i].seconds),
		         units[i].unit);
	return buf;
}
