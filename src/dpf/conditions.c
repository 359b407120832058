/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads conditions leniently, a malformed member counts as "", and describes in one line which are
 * unmet. Pure functions over a tree.
 */
#include "dpf/conditions.h"

#include <string.h>

#include "common/err.h"

#define MESSAGE_MAX 300 /* of one condition in an error text */

static const char *text_or_empty(const struct json *item, const char *name)
{
	const char *s = json_str(item, name);

	return s ? s : "";
}

struct condition condition_decode(const struct json *item)
{
	return (struct condition) {
		.type = text_or_empty(item, "type"),
		.status = text_or_empty(item, "status"),
		.reason = text_or_empty(item, "reason"),
		.message = text_or_empty(item, "message"),
		.since = text_or_empty(item, "lastTransitionTime"),
	};
}

static bool counts(const struct json *object, const struct json *item)
{
	struct err ignored = ERR_INIT;
	int64_t observed, generation;

	if (json_get_i64(item, "observedGeneration", &observed, &ignored))
		return !json_at(item, "observedGeneration");
	if (json_get_i64(object, "metadata.generation", &generation, &ignored))
		return true;
	return observed == generation;
}

static bool holds(const struct json *object, const char *type, bool otherwise)
{
	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		if (str_eq(c.type, type))
			return counts(object, item) && str_eq(c.status, "True");
	}
	return otherwise;
}

bool condition_holds(const struct json *object, const char *type)
{
	return holds(object, type, false);
}

bool condition_holds_or_absent(const struct json *object, const char *type)
{
	return holds(object, type, true);
}

bool condition_failure(const struct json *object, struct condition *ret)
{
	bool found = false;

	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		if (!str_eq(c.reason, "Failure") || str_eq(c.status, "True") ||
		    !counts(object, item))
			continue;
		if (!found || str_eq(ret->type, CONDITION_READY))
			*ret = c;
		found = true;
	}
	return found;
}

bool condition_unmet(const struct json *object, struct condition *ret)
{
	bool found = false;

	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		if (str_eq(c.status, "True") && counts(object, item))
			continue;
		if (!found || str_eq(ret->type, CONDITION_READY))
			*ret = c;
		found = true;
		if (!str_eq(c.type, CONDITION_READY))
			break;
	}
	return found;
}

/* Messages of DPF have several lines ("...not ready:\n* Bound"); an error has one. */
static void conditions_add_line(struct str *out, const char *text)
{
	size_t n = 0;
	bool space = false;

	for (; *text && n < MESSAGE_MAX; text++) {
		if (*text == '\n' || *text == '\r' || *text == '\t' || *text == ' ') {
			space = n > 0;
			continue;
		}
		if (space)
			str_add(out, " ");
		space = false;
		str_addn(out, text, 1);
		n++;
	}
	/* Do not cut inside a character of UTF-8. */
	while (*text && (*text & 0xc0) == 0x80)
		str_addn(out, text++, 1);
	if (*text)
		str_add(out, "...");
}

/* "Bound=False (Pending: the PVC is not bound)" */
static void describe_one(const struct condition *c, bool current, struct str *out)
{
	bool reason = *c->reason, message = *c->message;

	str_addf(out, "%s=%s", c->type, *c->status ? c->status : "Unknown");
	if (!reason && !message && current)
		return;
	str_addf(out, " (%s%s", c->reason, reason && message ? ": " : "");
	conditions_add_line(out, c->message);
	if (!current)
		str_addf(out, "%sabout an older generation", reason || message ? "; " : "");
	str_add(out, ")");
}

/* Appends the unmet ones, only the summary or all others. Returns the number of conditions. */
static size_t conditions_describe_all(const struct json *object, bool summary, struct str *out)
{
	size_t n = 0;

	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);
		bool current = counts(object, item);

		n++;
		if ((str_eq(c.status, "True") && current) ||
		    str_eq(c.type, CONDITION_READY) != summary)
			continue;
		if (out->len)
			str_add(out, ", ");
		describe_one(&c, current, out);
	}
	return n;
}

void conditions_describe(const struct json *object, struct str *out)
{
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	size_t n = conditions_describe_all(object, false, &text);

	if (!text.len)
		conditions_describe_all(object, true, &text);
	if (!text.len && !n)
		str_add(&text, "no conditions yet");
	str_add(out, text.ptr);
}

static void add_part(struct str *parts, const char *part)
{
	if (!*part)
		return;
	str_add(parts, parts->len ? "; " : ": ");
	str_add(parts, part);
}

void state_describe(const struct json *object, const char *missing, struct str *out)
{
	struct str conditions AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct str parts AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	const char *message = text_or_empty(object, "status.message");

	conditions_describe(object, &conditions);
	if (!strstr(conditions.ptr, message))
		add_part(&parts, message);
	add_part(&parts, missing);
	add_part(&parts, conditions.ptr);
	str_add(out, parts.ptr);
}
