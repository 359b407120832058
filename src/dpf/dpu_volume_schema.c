/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches for CEL rules that forbid any change of the requested size. Such a rule is an equality
 * of self and oldSelf at the field or above it, as the whole rule or as one part of a conjunction.
 * Other rules (for example, that the size may only grow) are left to the API server, which checks
 * each request; this file does not evaluate CEL. Owns nothing.
 */
#include "dpf/dpu_volume_schema.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define FIELD "spec.resources.requests.storage"
/*
 * bytes; parsing time grows with the square of the length, and real rules have a few hundred bytes
 */
#define RULE_MAX 2000

/* ---- one rule ---- */

/* Removes blanks, and writes self['a'] as self.a. */
static char *schema_normal_rule(const char *rule)
{
	char *text = xmalloc(strlen(rule) + 1), *out = text;

	for (const char *c = rule; *c; c++) {
		if ((c[0] == '[' && (c[1] == '\'' || c[1] == '"'))) {
			*out++ = '.';
			c++;
		} else if ((c[0] == '\'' || c[0] == '"') && c[1] == ']') {
			c++;
		} else if (!isspace((unsigned char)*c)) {
			*out++ = *c;
		}
	}
	*out = 0;
	return text;
}

/* Returns the end of the parenthesis that opens at `open`; `end` if it is not closed. */
static const char *closing(const char *open, const char *end)
{
	int depth = 0;

	for (const char *c = open; c < end; c++) {
		depth += (*c == '(') - (*c == ')');
		if (!depth)
			return c;
	}
	return end;
}

/* Returns the first `word` outside parentheses, or NULL. */
static const char *outside(const char *from, const char *end, const char *word)
{
	size_t n = strlen(word);

	for (const char *c = from; c + n <= end; c++) {
		if (*c == '(')
			c = closing(c, end);
		else if (strncmp(c, word, n) == 0)
			return c;
	}
	return NULL;
}

/* Removes parentheses around the whole text. */
static void strip(const char **from, const char **end)
{
	while (*from < *end && **from == '(' && closing(*from, *end) == *end - 1) {
		(*from)++;
		(*end)--;
	}
}

/* Converts "self.a.b" to ".a.b". Returns false if it is not such a path. */
static bool schema_path(const char *who, const char *from, const char *end, struct str *ret)
{
	size_t n = strlen(who);

	strip(&from, &end);
	if ((size_t)(end - from) < n || strncmp(from, who, n) != 0)
		return false;
	for (const char *c = from + n; c < end; c++)
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '_')
			return false;
	if (from + n < end && from[n] != '.')
		return false;
	str_addn(ret, from + n, (size_t)(end - from) - n);
	return true;
}

static bool are_same(const char *one, const char *one_from, const char *one_end, const char *other,
                     const char *other_from, const char *other_end, const char *below)
{
	struct str a AUTO(str_clear) = STR_INIT(1000), b AUTO(str_clear) = STR_INIT(1000);

	return schema_path(one, one_from, one_end, &a) &&
	       schema_path(other, other_from, other_end, &b) && str_eq(a.ptr, b.ptr) &&
	       str_has_prefix(below, a.ptr) && (below[a.len] == 0 || below[a.len] == '.');
}

/* `below` is the path from the rule's level to the field: ".requests.storage". */
static bool schema_freezes(const char *from, const char *end, const char *below)
{
	const char *and, *equal;

	strip(&from, &end);
	if (outside(from, end, "||") || outside(from, end, "?"))
		return false;
	and = outside(from, end, "&&");
	if (and)
		return schema_freezes(from, and, below) || schema_freezes(and+2, end, below);
	equal = outside(from, end, "==");
	if (!equal)
		return false;
	return are_same("self", from, equal, "oldSelf", equal + 2, end, below) ||
	       are_same("oldSelf", from, equal, "self", equal + 2, end, below);
}

/* ---- the schema ---- */

/* Returns the rule at this level that forbids a change, or NULL. */
static const char *frozen_by(const struct json *level, const char *below)
{
	json_foreach (item, json_member(level, "x-kubernetes-validations")) {
		const char *rule = json_str(item, "rule");
		bool is_read = rule && strlen(rule) <= RULE_MAX;
		char *text AUTO(free) = schema_normal_rule(is_read ? rule : "");

		if (schema_freezes(text, text + strlen(text), below))
			return rule;
	}
	return NULL;
}

static const struct json *child_of(const struct json *level, const char *name)
{
	const struct json *child = json_member(json_member(level, "properties"), name);

	return child ? child : json_member(level, "additionalProperties");
}

bool dpu_volume_may_grow(const struct json *schema, struct str *why)
{
	static const char *const names[] = { "spec", "resources", "requests", "storage" };
	static const char path[] = "." FIELD;
	const char *below = path;

	for (size_t i = 0;; i++) {
		const char *rule = frozen_by(schema, below);
		/* The levels above the field: "spec.resources". */
		int above = below - path > 1 ? (int)(below - path) - 1 : 0;

		if (rule) {
			str_addf(why, "%.*s has the rule %s", above ? above : 6,
			         above ? path + 1 : "object", rule);
			return false;
		}
		if (i == ARRAY_LEN(names))
			return true;
		schema = child_of(schema, names[i]);
		below += 1 + strlen(names[i]);
		if (!json_is_object(schema)) {
			str_addf(why, "there is no %.*s", (int)(below - path) - 1, path + 1);
			return false;
		}
	}
}
