/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the report as text, at most 120 columns wide except for findings: findings first, then a
 * table of the volumes, then Events, the node and the API server. If the report has only one
 * volume, all its members are shown. -o json has the full values.
 */
#include <inttypes.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/failing.h"
#include "inspect/inspect.h"

#define LINE_MAX_BYTES 8000
#define WIDTH 120
/* With more functions, the report has only a summary of them, unless the node was requested. */
#define FUNCTIONS_SHOWN 20
/* Deeper trees are cut, so that the recursion ends; no report is that deep. */
#define DEPTH_MAX 8

static bool is_nested(const struct json *v)
{
	return json_is_object(v) || json_is_array(v);
}

/* Returns true for members whose values are seconds. */
static bool is_age(const char *name)
{
	return str_eq(name, "age") || str_eq(name, "since") || str_eq(name, "deleting");
}

/* Adds "name" for true, "name value" for other values, and nothing for false and for "". */
static void print_add_scalar(struct str *s, const char *name, const struct json *v)
{
	struct err ignored = ERR_INIT;
	char age[64];
	bool flag = false;
	int64_t n = 0;

	if (json_get_bool(v, "", &flag, &ignored) == 0) {
		if (flag)
			str_addf(s, "%s%s", s->len ? ", " : "", name ? name : "yes");
		return;
	}
	err_clear(&ignored);
	if (json_text(v) && !*json_text(v))
		return;
	if (s->len)
		str_add(s, ", ");
	if (name)
		str_addf(s, "%s ", name);
	if (json_text(v))
		str_add_shown(s, json_text(v));
	else if (json_get_i64(v, "", &n, &ignored) == 0 && is_age(name))
		str_add(s, inspect_age(n, age));
	else
		str_addf(s, "%" PRId64, n);
}

/* Returns true if the object has no nested members, so that it fits on a line. */
static bool is_flat(const struct json *object)
{
	json_foreach (member, object)
		if (is_nested(member) && json_count(member))
			return false;
	return true;
}

/* Breaks a long text after ", " and indents the following lines. */
static void print_wrapped(FILE *out, unsigned indent, const char *text)
{
	size_t room = WIDTH - indent;

	while (strlen(text) > room) {
		size_t n = 0;

		for (size_t i = 1; i < room; i++)
			if (text[i] == ' ' && (text[i - 1] == ',' || !n))
				n = i;
		for (size_t i = n + 1; i < room && n && text[n - 1] != ','; i++)
			if (text[i] == ' ')
				n = i;
		if (!n)
			break;
		fprintf(out, "%.*s\n%*s", (int)n, text, (int)indent, "");
		text += n + 1;
	}
	fprintf(out, "%s\n", text);
}

static void print_line(FILE *out, unsigned depth, const char *name, const struct json *v)
{
	struct str s AUTO(str_clear) = STR_INIT(LINE_MAX_BYTES);
	int n;

	if (is_nested(v))
		json_foreach (member, v) {
			if (!is_nested(member))
				print_add_scalar(&s, json_is_object(v) ? json_name(member) : NULL,
				                 member);
		}
	else
		print_add_scalar(&s, NULL, v);
	if (!s.len)
		return;
	n = fprintf(out, "%*s%-*s ", (int)depth * 2, "", name ? 14 : 0, name ? name : "-");
	print_wrapped(out, n > 0 && n < WIDTH / 2 ? (unsigned)n : 16, s.ptr);
}

static void print_value(FILE *out, unsigned depth, const char *name, const struct json *v);

/* Prints an element of a list: one line, followed by the members that do not fit on it. */
static void print_element(FILE *out, unsigned depth, const struct json *v)
{
	print_line(out, depth, NULL, v);
	json_foreach (member, v)
		if (is_nested(member))
			print_value(out, depth + 1, json_name(member), member);
}

static void print_members(FILE *out, unsigned depth, const struct json *v)
{
	json_foreach (member, v)
		print_value(out, depth, json_is_object(v) ? json_name(member) : NULL, member);
}

static void print_value(FILE *out, unsigned depth, const char *name, const struct json *v)
{
	struct str s AUTO(str_clear) = STR_INIT(200);

	if (is_age(name) && !is_nested(v)) {
		print_add_scalar(&s, name, v);
		fprintf(out, "%*s%s\n", (int)depth * 2, "", s.ptr);
	} else if (!is_nested(v) || (json_is_object(v) && is_flat(v)) || depth > DEPTH_MAX) {
		print_line(out, depth, name, v);
	} else if (!name) {
		print_element(out, depth, v);
	} else if (json_count(v)) {
		fprintf(out, "%*s%s\n", (int)depth * 2, "", name);
		print_members(out, depth + 1, v);
	}
}

/* Prints text with control characters escaped. */
static void print_put(FILE *out, const char *before, const char *text)
{
	struct str s AUTO(str_clear) = STR_INIT(LINE_MAX_BYTES);

	str_add_shown(&s, text ? text : "");
	fprintf(out, "%s%s", before, s.ptr);
}

static void print_findings(const struct inspect_report *r, unsigned printed, FILE *out)
{
	unsigned n = 0;

	if (r->n_findings == printed) {
		fprintf(out, "\nFINDINGS: %s\n", printed ? "no more" : "none");
		return;
	}
	fprintf(out, "\nFINDINGS: %u%s\n", r->n_findings - printed, printed ? " more" : "");
	json_foreach (f, json_at(r->tree, "findings")) {
		if (n++ < printed)
			continue;
		fprintf(out, "%3u. ", n);
		print_put(out, "", json_str(f, "object"));
		print_put(out, ": ", json_str(f, "what"));
		print_put(out, "\n     next: ", json_str(f, "next"));
		fputc('\n', out);
	}
}

/* ---- tables ---- */

#define COLUMNS_MAX 7
struct column {
	const char *title;
	unsigned most; /* bytes; a longer value is cut and ends with ~ */
};
struct table {
	const struct column *columns;
	size_t n;
	struct strs cells; /* row by row */
};

/* "" or NULL: the value is not known. */
static void table_add_cell(struct table *t, const char *cell)
{
	const struct column *c = &t->columns[t->cells.n % t->n];
	struct str s AUTO(str_clear) = STR_INIT(LINE_MAX_BYTES);
	size_t n = c->most;

	str_add_shown(&s, str_empty(cell) ? "-" : cell);
	if (s.len <= n) {
		strs_add(&t->cells, s.ptr);
		return;
	}
	for (n--; n && ((unsigned char)s.ptr[n] & 0xc0) == 0x80; n--)
		; /* end after a complete character */
	strs_addf(&t->cells, "%.*s~", (int)n, s.ptr);
}

static void table_print(struct table *t, FILE *out)
{
	size_t width[COLUMNS_MAX] = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		width[i] = strlen(t->columns[i].title);
		for (size_t j = i; j < t->cells.n; j += t->n)
			if (strlen(t->cells.v[j]) > width[i])
				width[i] = strlen(t->cells.v[j]);
	}
	for (size_t i = 0; i < t->n; i++)
		fprintf(out, "%s%-*s", i ? " " : "  ", i + 1 < t->n ? (int)width[i] : 0,
		        t->columns[i].title);
	for (size_t j = 0; j < t->cells.n; j++)
		fprintf(out, "%s%-*s", j % t->n ? " " : "\n  ",
		        (j + 1) % t->n ? (int)width[j % t->n] : 0, t->cells.v[j]);
	fputc('\n', out);
	strs_clear(&t->cells);
}

static int64_t print_seconds(const struct json *v, const char *path)
{
	struct err ignored = ERR_INIT;
	int64_t n;

	return json_get_i64(v, path, &n, &ignored) ? -1 : n;
}

/* Adds an age with one unit, as kubectl does: "3d", "4h", "12m", "5s". */
static void table_add_age(struct table *t, int64_t seconds)
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	char buf[32] = "";
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(units) && seconds < units[i].seconds)
		i++;
	if (seconds >= 0)
		snprintf(buf, sizeof(buf), "%" PRId64 "%c", seconds / units[i].seconds,
		         units[i].unit);
	table_add_cell(t, buf);
}

static const char *first_text(const struct json *v, const char *const *paths)
{
	for (; *paths; paths++)
		if (!str_empty(json_str(v, *paths)))
			return json_str(v, *paths);
	return "";
}

/* ---- volumes ---- */

static bool is_true(const struct json *v, const char *path)
{
	struct err ignored = ERR_INIT;
	bool ret;

	return json_get_bool(v, path, &ret, &ignored) == 0 && ret;
}

static bool is_failing(const struct json *v)
{
	int64_t age = print_seconds(v, "lastError.age");

	return age >= 0 && age <= FAILING_FORGOTTEN_NS / INT64_C(1000000000);
}

/* Returns one word; the worst state takes precedence. */
static const char *volume_state(const struct json *v)
{
	const struct json *attachment = json_at(v, "api.attachments.0");

	if (is_failing(v))
		return "failing";
	if (is_true(v, "node.device.gone") || is_true(v, "node.staged.0.gone"))
		return "gone";
	if (json_at(v, "api.volume.deleting") || json_member(attachment, "deleting"))
		return "deleting";
	if (json_count(json_at(v, "node.records")))
		return "working";
	if (json_count(json_at(v, "node.published")))
		return "published";
	if (json_count(json_at(v, "node.staged")))
		return "staged";
	if (attachment)
		return is_true(attachment, "ready") ? "attached" : "attaching";
	if (json_at(v, "api.volume"))
		return is_true(v, "api.volume.ready") ? "bound" : "pending";
	return "";
}

/* Adds "1a2b3c4d+2": the beginning of the first pod's UID, and the number of further pods. */
static void volume_add_pod(struct table *t, const struct json *v)
{
	struct str s AUTO(str_clear) = STR_INIT(32);
	const char *pod = json_str(v, "node.published.0.pod");
	size_t n = json_count(json_at(v, "node.published"));

	if (pod)
		str_addf(&s, "%.8s", pod);
	if (pod && n > 1)
		str_addf(&s, "+%zu", n - 1);
	table_add_cell(t, s.ptr);
}

static void print_volume_table(const struct json *volumes, FILE *out)
{
	static const struct column columns[] = {
		{ "VOLUME", 40 },   { "CLAIM", 22 }, { "POD", 11 }, { "DEVICE", 13 },
		{ "FUNCTION", 12 }, { "STATE", 9 },  { "AGE", 5 },
	};
	static const char *const claims[] = { "api.persistentVolume.claim", "api.volume.claim",
		                              NULL };
	static const char *const devices[] = { "node.device.name", "node.device.tag", NULL };
	static const char *const functions[] = { "node.device.pci", "api.attachments.0.pci", NULL };
	struct table t = { .columns = columns, .n = ARRAY_LEN(columns) };

	json_foreach (v, volumes) {
		table_add_cell(&t, json_str(v, "id"));
		table_add_cell(&t, first_text(v, claims));
		volume_add_pod(&t, v);
		table_add_cell(&t, first_text(v, devices));
		table_add_cell(&t, first_text(v, functions));
		table_add_cell(&t, volume_state(v));
		table_add_age(
			&t, print_seconds(v, is_failing(v) ? "lastError.since" : "api.volume.age"));
	}
	table_print(&t, out);
}

/*
 * Returns true if a volume has facts. A requested volume that no source knows has an entry without
 * facts.
 */
static bool has_facts(const struct json *volumes)
{
	json_foreach (side, json_first(volumes))
		if (json_count(side))
			return true;
	return json_count(volumes) > 1;
}

static void print_volumes(const struct json *volumes, FILE *out)
{
	if (!has_facts(volumes))
		return;
	fprintf(out, "\nVOLUMES: %zu\n", json_count(volumes));
	print_volume_table(volumes, out);
	if (json_count(volumes) > 1)
		return;
	json_foreach (side, json_first(volumes))
		if (json_is_object(side))
			print_value(out, 1, json_name(side), side);
}

/* ---- Events ---- */

static void print_event(FILE *out, bool *begun, const char *kind, const char *name,
                        const struct json *warning)
{
	struct str s AUTO(str_clear) = STR_INIT(LINE_MAX_BYTES);
	char age[64];

	if (!warning)
		return;
	fputs(*begun ? "" : "\nEVENTS (Warnings of DPF)\n", out);
	*begun = true;
	str_addf(&s, "%s ", kind);
	str_add_shown(&s, name ? name : "?");
	str_addf(&s, ", %s ago, ", inspect_age(print_seconds(warning, "age"), age));
	str_add_shown(&s, json_str(warning, "reason") ? json_str(warning, "reason") : "");
	str_add(&s, ": ");
	str_add_shown(&s, json_str(warning, "message") ? json_str(warning, "message") : "");
	fputs("  ", out);
	print_wrapped(out, 4, s.ptr);
}

static void print_events(const struct json *volumes, FILE *out)
{
	bool begun = false;

	json_foreach (v, volumes) {
		const char *id = json_str(v, "id");

		print_event(out, &begun, "DPUVolume", id, json_at(v, "api.volume.warning"));
		print_event(out, &begun, "an earlier DPUVolume", id,
		            json_at(v, "api.earlierWarning"));
		json_foreach (a, json_at(v, "api.attachments"))
			print_event(out, &begun, "DPUVolumeAttachment", json_str(a, "name"),
			            json_member(a, "warning"));
	}
}

/* ---- functions ---- */

static void print_function_table(const struct json *functions, FILE *out)
{
	static const struct column columns[] = {
		{ "FUNCTION", 12 }, { "KIND", 9 },    { "DRIVER", 12 },
		{ "DISKS", 24 },    { "VOLUME", 40 }, { "STATE", 16 },
	};
	struct table t = { .columns = columns, .n = ARRAY_LEN(columns) };

	json_foreach (f, functions) {
		table_add_cell(&t, json_str(f, "pci"));
		table_add_cell(&t, json_str(f, "kind"));
		table_add_cell(&t, json_str(f, "driver"));
		table_add_cell(&t, json_str(f, "disks"));
		table_add_cell(&t, json_str(f, "volume"));
		table_add_cell(&t, is_true(f, "hangs") ? "hangs" : "");
	}
	table_print(&t, out);
}

static void print_functions(const struct json *functions, bool all, FILE *out)
{
	size_t n = json_count(functions), volumes = 0, bound = 0, hang = 0;

	if (!n)
		return;
	json_foreach (f, functions) {
		volumes += json_str(f, "volume") != NULL;
		bound += !str_eq(json_str(f, "driver"), "none");
		hang += is_true(f, "hangs");
	}
	fprintf(out, "\nFUNCTIONS: %zu (%zu with a volume, %zu with a driver, %zu hang)%s\n", n,
	        volumes, bound, hang,
	        all || n <= FUNCTIONS_SHOWN ? "" : "; inspect node lists them");
	if (all || n <= FUNCTIONS_SHOWN)
		print_function_table(functions, out);
}

/* ---- the whole report ---- */

/* Prints all members except `skipped`, which has a table. */
static void print_section(FILE *out, const char *title, const struct json *v, const char *skipped)
{
	if (!v)
		return;
	fprintf(out, "\n%s\n", title);
	json_foreach (member, v)
		if (!str_eq(json_name(member), skipped))
			print_value(out, 1, json_name(member), member);
}

static void print_rest(const struct inspect_report *r, FILE *out)
{
	const struct json *volumes = json_at(r->tree, "volumes");

	print_volumes(volumes, out);
	print_events(volumes, out);
	print_section(out, "NODE", json_at(r->tree, "node"), "functions");
	print_functions(json_at(r->tree, "node.functions"), r->all_functions, out);
	print_section(out, "API", json_at(r->tree, "api"), NULL);
}

void inspect_print(const struct inspect_report *r, FILE *out)
{
	print_put(out, "inspected ", json_str(r->tree, "time"));
	print_put(out, " on ", json_str(r->tree, "host"));
	fputc('\n', out);
	print_findings(r, 0, out);
	print_rest(r, out);
}

void inspect_print_after(const struct inspect_report *r, unsigned n_findings, FILE *out)
{
	fputs("\nwith the API server's part:\n", out);
	print_findings(r, n_findings, out);
	print_rest(r, out);
}
