/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key that the driver does not know is given to the vendor, which ignores what it does not know
 * either: a slip would silently mean the default. So what resembles a key of the driver is taken
 * for a slip. Compares texts only; which keys there are is the caller's.
 */
#include "volume/param_meant.h"

#include <string.h>
#include <strings.h>

#include "common/str.h"
#include "volume/context_keys.h"

/* What follows the prefix. */
static const char *name_of(const char *key)
{
	const char *slash = strrchr(key, '/');

	return slash ? slash + 1 : key;
}

/* Has the key no prefix, or one in which this driver or its vendor is named? */
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

static bool same_start(const char *a, const char *b, size_t n)
{
	return strncasecmp(a, b, n) == 0;
}

/* At most one letter apart; upper and lower case do not count. */
static bool resembles(const char *a, const char *b)
{
	while (*a && same_start(a, b, 1))
		a++, b++;
	if (!*a || !*b)
		return strlen(a) + strlen(b) <= 1;
	return !strcasecmp(a + 1, b + 1) || !strcasecmp(a + 1, b) || !strcasecmp(a, b + 1) ||
	       (same_start(a, b + 1, 1) && same_start(a + 1, b, 1) && !strcasecmp(a + 2, b + 2));
}

const char *param_meant(const char *key, const char *const *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(key, known[i]))
			return NULL;
	if (!may_be_ours(key))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (resembles(name_of(key), name_of(known[i])))
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
