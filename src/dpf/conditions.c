/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads conditions leniently (a malformed member counts as "") and describes the unmet ones in one
 * line. Pure functions over a tree.
 */
#include "dpf/conditions.h"

#include <string.h>

#include "common/err.h"

#define MESSAGE_MAX 300       /* maximum length of one condition's message in an error */
#define NO_CAUSE "not ready:" /* the end of a DPF message that lacks its cause */

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

bool condition_reason(const struct json *object, const char *reason, struct condition *ret)
{
	bool found = false;

	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		if (!str_eq(c.reason, reason) || str_eq(c.status, "True") || !counts(object, item))
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

/* Returns the length without trailing whitespace. */
static size_t message_length(const char *text)
{
	size_t n = strlen(text);

	while (n && strchr(" \n\r\t", text[n - 1]))
		n--;
	return n;
}

/*
 * Returns true if the message, of that length, ends where its cause should be. "DPU n1 is not
 * ready" has a cause.
 */
static bool lacks_cause(const char *text, size_t n)
{
	return n >= strlen(NO_CAUSE) &&
	       !strncmp(text + n - strlen(NO_CAUSE), NO_CAUSE, strlen(NO_CAUSE));
}

/* Messages of DPF have several lines ("...not ready:\n* Bound"); an error has only one. */
void message_add_line(struct str *out, const char *text)
{
	size_t n = 0, left = message_length(text);
	bool space = false;

	left -= lacks_cause(text, left);
	for (; left && n < MESSAGE_MAX; text++, left--) {
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
	for (; left && (*text & 0xc0) == 0x80; left--)
		str_addn(out, text++, 1);
	if (left)
		str_add(out, "...");
}

/* Appends "Bound=False (Pending: the PVC is not bound)". */
static void describe_one(const struct condition *c, bool current, struct str *out)
{
	bool reason = *c->reason, message = *c->message;

	str_addf(out, "%s=%s", c->type, *c->status ? c->status : "Unknown");
	if (!reason && !message && current)
		return;
	str_addf(out, " (%s%s", c->reason, reason && message ? ": " : "");
	message_add_line(out, c->message);
	if (!current)
		str_addf(out, "%sabout an older generation", reason || message ? "; " : "");
	str_add(out, ")");
}

/*
 * Returns true if the condition is about an older generation of an object that is being deleted. A
 * DELETE raises the generation, so such a condition is not about the deletion.
 */
static bool is_passed(const struct json *object, const struct json *item)
{
	return !counts(object, item) && json_at(object, "metadata.deletionTimestamp");
}

/*
 * Appends the unmet conditions: only the summary, or all others. Returns the number of conditions.
 */
static size_t conditions_describe_all(const struct json *object, bool summary, struct str *out)
{
	size_t n = 0;

	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);
		bool current = counts(object, item);

		if (is_passed(object, item))
			continue;
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

/*
 * Returns true if DPF has neither done nor reported anything for the object's current state. In
 * this case each current condition is True or Unknown without a reason, and one is missing or
 * Unknown.
 */
static bool is_silent(const struct json *object)
{
	const char *phase = text_or_empty(object, "status.phase");
	bool summary = false;
	size_t n = 0, unknown = 0;

	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		if (!counts(object, item) && !is_passed(object, item))
			return false;
		if (is_passed(object, item))
			continue;
		if (str_eq(c.type, CONDITION_READY)) {
			summary = true;
			continue;
		}
		if (!str_eq(c.status, "True") && (!str_eq(c.status, "Unknown") || *c.message))
			return false;
		n++;
		unknown += str_eq(c.status, "Unknown");
	}
	if (n ? !unknown : summary)
		return false;
	return json_at(object, "metadata.deletionTimestamp") ||
	       (!json_at(object, "status.dpuAttached") && !json_at(object, "status.dpu") &&
	        (!*phase || str_eq(phase, "Pending")));
}

/* Returns true if a message of DPF lacks its cause. */
static bool has_no_cause(const struct json *object)
{
	const char *message = text_or_empty(object, "status.message");

	if (lacks_cause(message, message_length(message)))
		return true;
	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		if (!str_eq(c.status, "True") && lacks_cause(c.message, message_length(c.message)))
			return true;
	}
	return false;
}

const char *state_hint(const struct json *object)
{
	if (!*text_or_empty(object, "status.message") && is_silent(object))
		return "DPF has not started: check that its host controller runs and every DPU "
		       "cluster is reachable";
	if (has_no_cause(object))
		return "DPF gives no reason (is its node driver running on the DPU?)";
	return "";
}

void state_describe(const struct json *object, const char *missing, struct str *out)
{
	struct str conditions AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct str message AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct str parts AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	conditions_describe(object, &conditions);
	message_add_line(&message, text_or_empty(object, "status.message"));
	if (!strstr(conditions.ptr, message.ptr))
		add_part(&parts, message.ptr);
	add_part(&parts, missing);
	add_part(&parts, conditions.ptr);
	str_add(out, parts.ptr);
}
