/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topology key, and the check whether a volume can be in a requested topology.
 *
 * A topology with a key other than the driver's cannot be satisfied, because no node of this driver
 * has that key. If the volume were created anyway, its pods would run on nodes other than those of
 * the StorageClass.
 */
#include "volume/topology.h"

#include <strings.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"

char *topology_key(const char *driver)
{
	return xasprintf("topology.%s/dpu", driver);
}

/* Compares as CSI requires: keys are case-insensitive, values are not. */
static bool is_met(const char *key, const struct kvs *place, struct str *asked)
{
	bool met = true;

	for (size_t i = 0; i < place->n; i++) {
		const struct kv *segment = &place->v[i];

		str_addf(asked, "%s%s=%s", asked->len ? ", " : "", segment->key, segment->value);
		met = met && strcasecmp(segment->key, key) == 0 &&
		      str_eq(segment->value, TOPOLOGY_VALUE);
	}
	return met;
}

int topology_check(const char *key, const struct kvs *requisite, size_t n, struct err *err)
{
	struct str asked AUTO(str_clear) = STR_INIT(500);

	for (size_t i = 0; i < n; i++)
		if (is_met(key, &requisite[i], &asked))
			return 0;
	if (n == 0)
		return 0;
	return err_set(
		err, ERR_EXHAUSTED,
		"AccessibilityRequirements: volumes are only accessible on nodes with %s=" TOPOLOGY_VALUE
		", requested %s; check allowedTopologies of the StorageClass",
		key, asked.ptr);
}
