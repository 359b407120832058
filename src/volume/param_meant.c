/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key that the driver does not know is passed to the vendor, which also ignores unknown keys, so
 * a misspelled key would silently select the default. Therefore a key that resembles one of the
 * driver's keys is treated as a misspelling. Only compares strings; the caller passes the known
 * keys.
 */
#include "volume/param_meant.h"

#include <string.h>

#include "common/str.h"
#include "volume/context_keys.h"

/* Returns the part after the prefix. */
static const char *name_of(const char *key)
{
	const char *slash = strrchr(key, '/');

	return slash ? slash + 1 : key;
}

/* Returns true if the key has no prefix, or one that names this driver or its vendor. */
static bool may_be_ours(const char *key)
{
	size_t n = (size_t)(name_of(key) - key);
	char prefix[64];

	if (n >= sizeof(prefix))
		return false;
	memcpy(prefix, key, n);
	prefix[n] = '\0';
	return !n || strcasestr(prefix, "snap") || strcasestr(prefix, "nvidia");
}

const char *param_meant(const char *key, const char *const *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(key, known[i]))
			return NULL;
	if (!may_be_ours(key))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (str_resembles(name_of(key), name_of(known[i])))
			return known[i];
	return NULL;
}

int param_refuse_slip(const char *key, const char *const *known, size_t n, struct err *err)
{
	const char *meant = param_meant(key, known, n);

	if (!meant)
		return 0;
	return err_set(err, ERR_INVALID, "%s: no such key; write %s%s", key, meant,
	               str_has_prefix(key, DRIVER_PREFIX)
	                       ? ""
	                       : ", or put a vendor's parameter of that name into the "
	                         "DPUStoragePolicy");
}
