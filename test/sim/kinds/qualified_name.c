/* SPDX-License-Identifier: Apache-2.0 */
/* Character classes of names. No state. */
#include "test/sim/kinds/qualified_name.h"

#include <ctype.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

/* At most 63 of [-_.A-Za-z0-9] with a letter or digit at both ends. */
static bool is_word(const char *s, size_t n)
{
	if (!n || n > 63 || !isalnum((unsigned char)s[0]) || !isalnum((unsigned char)s[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("-_.", s[i]))
			return false;
	return true;
}

bool qualified_name_is_valid(const char *name)
{
	const char *slash = strchr(name, '/');

	if (slash) {
		char *prefix AUTO(free) = xstrndup(name, (size_t)(slash - name));

		if (!dns1123_subdomain(prefix))
			return false;
		name = slash + 1;
	}
	return is_word(name, strlen(name));
}

bool label_value_is_valid(const char *value)
{
	return !*value || is_word(value, strlen(value));
}
