/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for people: findings first, then what the tree has, a line for what fits on one. It
 * knows findings and ages; every other member is shown under its own name.
 */
#include <inttypes.h>

#include "common/cleanup.h"
#include "inspect/inspect.h"

#define LINE_MAX_BYTES 8000
/* Deeper trees than ours are cut, not followed without end. */
#define DEPTH_MAX 8

static bool is_nested(const struct json *v)
{
	return json_is_object(v) || json_is_array(v);
}

/* Members that are seconds. */
static bool is_age(const char *name)
{
	return str_eq(name, "age") || str_eq(name, "since") || str_eq(name, "deleting");
}

/* "name" for true, "name value" for the rest; nothing for false and for "". */
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

/* Has it nothing below its own members? Then it fits on a line. */
static bool is_flat(const struct json *object)
{
	json_foreach (member, object)
		if (is_nested(member) && json_count(member))
			return false;
	return true;
}

static void print_line(FILE *out, unsigned depth, const char *name, const struct json *v)
{
	struct str s AUTO(str_clear) = STR_INIT(LINE_MAX_BYTES);

	if (is_nested(v))
		json_foreach (member, v) {
			if (!is_nested(member))
				print_add_scalar(&s, json_is_object(v) ? json_name(member) : NULL,
				                 member);
		}
	else
		print_add_scalar(&s, NULL, v);
	if (s.len)
		fprintf(out, "%*s%-*s %s\n", (int)depth * 2, "", name ? 14 : 0, name ? name : "-",
		        s.ptr);
}

static void print_value(FILE *out, unsigned depth, const char *name, const struct json *v);

/* One of a list: a line, and below it what does not fit on one. */
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

/* Text with what a terminal would obey spelled out. */
static void print_put(FILE *out, const char *before, const char *text)
{
	struct str s AUTO(str_clear) = STR_INIT(LINE_MAX_BYTES);

	str_add_shown(&s, text ? text : "");
	fprintf(out, "%s%s", before, s.ptr);
}

static void print_findings(const struct inspect_report *r, FILE *out)
{
	unsigned n = 0;

	if (!r->n_findings) {
		fputs("\nFINDINGS: none\n", out);
		return;
	}
	fprintf(out, "\nFINDINGS: %u\n", r->n_findings);
	json_foreach (f, json_at(r->tree, "findings")) {
		fprintf(out, "%3u. ", ++n);
		print_put(out, "", json_str(f, "object"));
		print_put(out, ": ", json_str(f, "what"));
		print_put(out, "\n     next: ", json_str(f, "next"));
		fputc('\n', out);
	}
}

static void print_section(FILE *out, const char *title, const struct json *v)
{
	if (!v)
		return;
	fprintf(out, "\n%s\n", title);
	print_members(out, 1, v);
}

static void print_volumes(const struct json *volumes, FILE *out)
{
	if (!volumes)
		return;
	fprintf(out, "\nVOLUMES: %zu\n", json_count(volumes));
	json_foreach (v, volumes) {
		print_put(out, "  ", json_str(v, "id"));
		fputc('\n', out);
		json_foreach (side, v)
			if (json_is_object(side))
				print_value(out, 2, json_name(side), side);
	}
}

void inspect_print(const struct inspect_report *r, FILE *out)
{
	print_put(out, "inspected ", json_str(r->tree, "time"));
	print_put(out, " on ", json_str(r->tree, "host"));
	fputc('\n', out);
	print_findings(r, out);
	print_section(out, "NODE", json_at(r->tree, "node"));
	print_section(out, "API", json_at(r->tree, "api"));
	print_volumes(json_at(r->tree, "volumes"), out);
}
