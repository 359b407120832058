/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a borrowed string map linearly, because maps have a dozen keys. Owns nothing, copies
 * nothing; any thread.
 */
#include "common/kv.h"

#include "common/str.h"

const char *kvs_get(const struct kvs *map, const char *key)
{
	for (size_t i = 0; map && i < map->n; i++)
		if (str_eq(map->v[i].key, key))
			return map->v[i].value;
	return NULL;
}

const char *kvs_get_or(const struct kvs *map, const char *key, const char *otherwise)
{
	const char *value = kvs_get(map, key);

	return str_empty(value) ? otherwise : value;
}
