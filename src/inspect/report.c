/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a report: volumes by id, and findings. Owns the tree and the index of the tree's
 * volumes; reads neither the host nor the API server.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "inspect/inspect.h"

struct volume_link {
	struct hash_link link;
	struct json *volume; /* a member of the tree's volumes */
};

static uint64_t volume_hash(const struct inspect_report *r, const char *id)
{
	return keyed_hash(&r->key, id, strlen(id));
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
	r->node_reports = json_array();
	r->key = hash_key_random();
}

static void free_volume_link(struct hash_link *l)
{
	free(l);
}

void inspect_report_clear(struct inspect_report *r)
{
	hash_table_each(&r->volumes, free_volume_link);
	hash_table_clear(&r->volumes);
	json_free(r->node_reports);
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
	struct json *volume = inspect_volume_known(r, id);
	struct volume_link *l;

	if (volume)
		return volume;
	l = xcalloc(1, sizeof(*l));
	l->volume = json_object();
	json_set_str(l->volume, "id", id);
	json_append(inspect_list(r->tree, "volumes"), l->volume);
	hash_table_add(&r->volumes, &l->link, volume_hash(r, id));
	return l->volume;
}

struct json *inspect_volume_known(const struct inspect_report *r, const char *id)
{
	struct hash_link *l = hash_table_first(&r->volumes, volume_hash(r, id));

	while (l && !str_eq(json_str(((struct volume_link *)l)->volume, "id"), id))
		l = hash_table_next(l);
	return l ? ((struct volume_link *)l)->volume : NULL;
}

bool inspect_wants(const struct inspect_options *o, const char *volume_id)
{
	if (o->volume_id)
		return str_eq(o->volume_id, volume_id);
	return !o->resolved || strs_has(&o->volumes, volume_id);
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
