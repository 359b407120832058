/* SPDX-License-Identifier: Apache-2.0 */
/* Works on the tree of one object. No state. */
#include "test/sim/dpf/conditions.h"

#include "common/str.h"
#include "test/sim/kinds/object.h"

static struct json *find(struct json *object, const char *type)
{
	struct json *list = json_at_mut(object, "status.conditions");
	size_t i = 0;

	json_foreach (item, list) {
		char index[24];

		if (str_eq(json_str(item, "type"), type)) {
			snprintf(index, sizeof(index), "%zu", i);
			return json_at_mut(list, index);
		}
		i++;
	}
	return NULL;
}

static struct json *add(struct json *object, const char *type)
{
	struct json *status = json_sub(object, "status");
	struct json *item = json_object();

	if (!json_is_array(json_member(status, "conditions")))
		json_set(status, "conditions", json_array());
	json_set_str(item, "type", type);
	json_append(json_at_mut(status, "conditions"), item);
	return item;
}

void conditions_set(struct json *object, const char *type, const char *status, const char *reason,
                    const char *message)
{
	struct json *c = find(object, type);
	char now[32];

	if (!c)
		c = add(object, type);
	if (!str_eq(json_str(c, "status"), status)) {
		object_now(now);
		json_set_str(c, "lastTransitionTime", now);
	}
	json_set_str(c, "status", status);
	json_set_str(c, "reason", reason);
	json_set_str(c, "message", message);
	json_set_int(c, "observedGeneration", object_generation(object));
}

void conditions_remove(struct json *object, const char *type)
{
	struct json *list = json_array();

	json_foreach (item, json_at(object, "status.conditions"))
		if (!str_eq(json_str(item, "type"), type))
			json_append(list, json_copy(item));
	json_set(json_sub(object, "status"), "conditions", list);
}

static void ensure(struct json *object, const char *type)
{
	if (!find(object, type))
		conditions_set(object, type, "Unknown", REASON_PENDING, "");
}

void conditions_ensure(struct json *object, const char *const *types)
{
	ensure(object, "Ready");
	for (; *types; types++)
		ensure(object, *types);
}

const char *conditions_status(const struct json *object, const char *type)
{
	json_foreach (item, json_at(object, "status.conditions"))
		if (str_eq(json_str(item, "type"), type))
			return json_str(item, "status");
	return "";
}

static bool is_current(const struct json *object, const struct json *condition)
{
	struct err err = ERR_INIT;
	int64_t observed = -1;

	return json_get_i64(condition, "observedGeneration", &observed, &err) == 0 &&
	       observed == object_generation(object);
}

bool conditions_true(const struct json *object, const char *type)
{
	json_foreach (item, json_at(object, "status.conditions"))
		if (str_eq(json_str(item, "type"), type))
			return str_eq(json_str(item, "status"), "True") && is_current(object, item);
	return false;
}

/* The reasons of conditions that are not True, the worst last. Error is not listed: Ready shows it as Pending. */
static const char *const by_severity[] = { REASON_PENDING, REASON_FAILURE, REASON_DELETION };

/* Index of the reason in that list; any other reason counts as the first. */
static size_t severity(const char *reason)
{
	for (size_t i = ARRAY_LEN(by_severity) - 1; i > 0; i--)
		if (str_eq(by_severity[i], reason))
			return i;
	return 0;
}

void conditions_summarize(struct json *object, const char *const *types)
{
	struct str text AUTO(str_clear) = STR_INIT(4096);
	struct str message AUTO(str_clear) = STR_INIT(4096);
	bool stale = false;
	size_t worst = 0;

	for (; *types; types++) {
		struct json *c = find(object, *types);
		size_t now = c ? severity(json_str(c, "reason")) : 0;

		if (c && str_eq(json_str(c, "status"), "True"))
			continue;
		if (c && !is_current(object, c)) {
			stale = true;
			continue;
		}
		str_addf(&text, "\n* %s", *types);
		if (now > worst)
			worst = now;
	}
	if (!text.len && !stale) {
		conditions_set(object, "Ready", "True", REASON_SUCCESS, "");
		return;
	}
	if (text.len)
		str_addf(&message, "The following conditions are not ready:%s", text.ptr);
	else
		str_add(&message, "Reconciliation is in progress");
	conditions_set(object, "Ready", "False", by_severity[worst], message.ptr);
}
