/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes metadata; the same for every kind. No state. */
#include "test/sim/kinds/object.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

void object_now(char buf[32])
{
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void object_uuid(char buf[37])
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		abort();
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(buf, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
	         b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
	         b[13], b[14], b[15]);
}

const char *object_text(const struct json *o, const char *path)
{
	const char *s = json_str(o, path);

	return s ? s : "";
}

const char *object_name(const struct json *o)
{
	return object_text(o, "metadata.name");
}

const char *object_namespace(const struct json *o)
{
	return object_text(o, "metadata.namespace");
}

const char *object_uid(const struct json *o)
{
	return object_text(o, "metadata.uid");
}

int64_t object_generation(const struct json *o)
{
	struct err err = ERR_INIT;
	int64_t generation = 0;

	return json_get_i64(o, "metadata.generation", &generation, &err) == 0 ? generation : 0;
}

bool object_is_deleting(const struct json *o)
{
	return json_str(o, "metadata.deletionTimestamp");
}

const char *object_annotation(const struct json *o, const char *key)
{
	return json_text(json_member(json_at(o, "metadata.annotations"), key));
}

bool object_has_finalizer(const struct json *o, const char *finalizer)
{
	json_foreach (item, json_at(o, "metadata.finalizers")) {
		if (str_eq(json_text(item), finalizer))
			return true;
	}
	return false;
}

void object_add_finalizer(struct json *o, const char *finalizer)
{
	struct json *metadata = json_sub(o, "metadata");

	if (object_has_finalizer(o, finalizer))
		return;
	if (!json_is_array(json_member(metadata, "finalizers")))
		json_set(metadata, "finalizers", json_array());
	json_append(json_at_mut(metadata, "finalizers"), json_string(finalizer));
}

void object_drop_finalizer(struct json *o, const char *finalizer)
{
	struct json *kept = json_array();

	json_foreach (item, json_at(o, "metadata.finalizers")) {
		if (!str_eq(json_text(item), finalizer))
			json_append(kept, json_copy(item));
	}
	if (json_count(kept)) {
		json_set(json_sub(o, "metadata"), "finalizers", kept);
	} else {
		json_free(kept);
		json_remove(json_sub(o, "metadata"), "finalizers");
	}
}

bool object_has_finalizers(const struct json *o)
{
	return json_count(json_at(o, "metadata.finalizers")) > 0;
}
