/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of every Kubernetes object: name, uid, times, finalizers, annotations. A tree belongs
 * to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "common/str.h"

/* The current time as metav1.Time: "2026-11-21T00:00:00Z". */
void object_now(char buf[32]);
/* A random version 4 UUID. */
void object_uuid(char buf[37]);

/* The string at a path, or "" if absent. */
const char *object_text(const struct json *o, const char *path);
const char *object_name(const struct json *o); /* "" when absent; so are the next two */
const char *object_namespace(const struct json *o);
const char *object_uid(const struct json *o);
int64_t object_generation(const struct json *o);
bool object_is_deleting(const struct json *o);
const char *object_annotation(const struct json *o, const char *key); /* or NULL */

bool object_has_finalizer(const struct json *o, const char *finalizer);
void object_add_finalizer(struct json *o, const char *finalizer);
void object_drop_finalizer(struct json *o, const char *finalizer);
bool object_has_finalizers(const struct json *o);
