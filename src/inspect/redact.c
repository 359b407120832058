/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the copy member by member. Members without a rule are copied on purpose, and a new member
 * of a known sort (a map of parameters) is redacted wherever it appears.
 */
#include "inspect/redact.h"

#include <string.h>

#include "common/str.h"
#include "volume/context_keys.h"

/* Maps filled by users and vendors, in which each value may be a password. */
static const char *const filled_by_others[] = {
	"parameters",     "mutableParameters",  "volumeAttributes", "volumeContext",
	"publishContext", "attachmentMetadata", "volumeMetadata",   "data",
	"stringData",
};

/* Parts of names that mark a secret, compared without regard to case. */
static const char *const secret_names[] = { "password",   "passwd",     "token",       "secret",
	                                    "credential", "privatekey", "private-key", "apikey",
	                                    "api-key",    "accesskey",  "access-key" };

/* Prefixes of annotations and labels that are known to contain no secret. */
static const char *const known_prefixes[] = { DRIVER_PREFIX, "app.kubernetes.io/",
	                                      "pv.kubernetes.io/", "volume.kubernetes.io/" };

static bool is_filled_by_others(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(filled_by_others); i++)
		if (str_eq(filled_by_others[i], name))
			return true;
	return false;
}

static bool is_named_like_a_secret(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(secret_names); i++)
		if (strcasestr(name, secret_names[i]))
			return true;
	return false;
}

static bool redact_is_known(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(known_prefixes); i++)
		if (str_has_prefix(key, known_prefixes[i]))
			return true;
	return false;
}

static struct json *only_names(const struct json *map)
{
	struct json *copy = json_object();

	json_foreach (member, map)
		json_set_str(copy, json_name(member), REDACTED);
	return copy;
}

static struct json *only_known(const struct json *map)
{
	struct json *copy = json_object();

	json_foreach (member, map)
		if (redact_is_known(json_name(member)))
			json_set(copy, json_name(member), json_copy(member));
	return copy;
}

/*
 * Returns only the name of a reference to a Secret, which is an object; its other members may be
 * the secret.
 */
static struct json *redact_to_reference(const struct json *value)
{
	static const char *const members[] = { "name", "namespace", "kind", "apiVersion", "key" };
	struct json *copy;

	if (!json_is_object(value))
		return json_string(REDACTED);
	copy = json_object();
	json_foreach (member, value) {
		bool known = false;

		for (size_t i = 0; i < ARRAY_LEN(members) && !known; i++)
			known = json_is_string(member) && str_eq(json_name(member), members[i]);
		json_set(copy, json_name(member),
		         known ? json_copy(member) : json_string(REDACTED));
	}
	return copy;
}

static struct json *redact_tree(const struct json *value, int depth)
{
	struct json *copy;

	if (!json_is_object(value) && !json_is_array(value))
		return json_copy(value);
	if (depth > 32)
		return json_string(REDACTED);
	copy = json_is_array(value) ? json_array() : json_object();
	json_foreach (member, value) {
		const char *name = json_name(member);

		if (json_is_array(value))
			json_append(copy, redact_tree(member, depth + 1));
		else if (str_eq(name, "managedFields"))
			continue;
		else if (str_eq(name, "annotations") || str_eq(name, "labels"))
			json_set(copy, name, only_known(member));
		else if (is_filled_by_others(name) && json_is_object(member))
			json_set(copy, name, only_names(member));
		else if (is_filled_by_others(name))
			json_set_str(copy, name, REDACTED);
		else if (is_named_like_a_secret(name))
			json_set(copy, name, redact_to_reference(member));
		else
			json_set(copy, name, redact_tree(member, depth + 1));
	}
	return copy;
}

struct json *redact_object(const struct json *object)
{
	return redact_tree(object, 0);
}
