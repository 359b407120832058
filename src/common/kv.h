/* SPDX-License-Identifier: Apache-2.0 */
/* A string map as CSI has it (parameters, contexts): borrowed strings, unique keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct kv {
	const char *key, *value;
};

struct kvs {
	const struct kv *v;
	size_t n;
};

/* Returns the value, or NULL. */
const char *kvs_get(const struct kvs *map, const char *key);
/* Returns the value, or `otherwise` if the key is absent or its value empty. */
const char *kvs_get_or(const struct kvs *map, const char *key, const char *otherwise);
