/* SPDX-License-Identifier: Apache-2.0 */
/* The list of served versions. Owns it, under a lock. */
#include "test/sim/kinds/served.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define GROUP "storage.dpu.nvidia.com"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct strs served = STRS_INIT; /* as given; empty: the version of resource.c */

static bool is_version(const char *text)
{
	return text[0] == 'v' && isdigit((unsigned char)text[1]);
}

int served_set(const struct strs *versions, struct err *err)
{
	for (size_t i = 0; i < versions->n; i++)
		if (!is_version(versions->v[i]))
			return err_set(err, ERR_INVALID, "\"%s\" is not a version such as v1beta1",
			               versions->v[i]);
	WITH_LOCK(&lock);
	strs_clear(&served);
	for (size_t i = 0; i < versions->n; i++)
		strs_add(&served, versions->v[i]);
	return 0;
}

void served_versions(const struct api_resource *r, struct strs *ret)
{
	WITH_LOCK(&lock);
	if (!str_eq(r->group, GROUP) || !served.n)
		strs_add(ret, r->version);
	else
		for (size_t i = 0; i < served.n; i++) {
			char *version AUTO(free) = xstrndup(served.v[i], strcspn(served.v[i], "-"));

			strs_add(ret, version);
		}
}

bool served_has(const struct api_resource *r, const char *version)
{
	struct strs versions AUTO(strs_clear) = STRS_INIT;

	served_versions(r, &versions);
	return strs_has(&versions, version);
}

char *served_lacks(const char *version)
{
	size_t n = strlen(version);
	WITH_LOCK(&lock);

	for (size_t i = 0; i < served.n; i++)
		if (str_has_prefix(served.v[i], version) && served.v[i][n] == '-')
			return xstrdup(served.v[i] + n + 1);
	return NULL;
}

char *served_convert(const char *text, const struct api_resource *r, const char *from,
                     const char *to)
{
	struct str out AUTO(str_clear) = STR_INIT(SIZE_MAX / 2);
	char *before AUTO(free) = xasprintf("\"%s/%s\"", r->group, from);

	for (const char *at; (at = strstr(text, before)); text = at + strlen(before)) {
		str_addn(&out, text, (size_t)(at - text));
		str_addf(&out, "\"%s/%s\"", r->group, to);
	}
	str_add(&out, text);
	return str_take(&out);
}
