/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attachments are named as the Go plugin names them. Two inputs may result in the same name,
 * because both a plain join and a hash are ambiguous. So callers compare the object's spec.
 */
#include "controller/names.h"

#include <stdio.h>
#include <string.h>

#include "common/str.h"

void volume_object_name(const char *name, char ret[OBJECT_NAME_MAX + 1])
{
	char hash[33];

	if (dns1123_subdomain(name)) {
		snprintf(ret, OBJECT_NAME_MAX + 1, "%s", name);
		return;
	}
	fnv128_hex(name, "", hash);
	snprintf(ret, OBJECT_NAME_MAX + 1, "v-%s", hash);
}

bool attachment_object_name(const char *node, const char *volume, char ret[OBJECT_NAME_MAX + 1])
{
	char hash[33];

	if (snprintf(ret, OBJECT_NAME_MAX + 1, "%s-%s", node, volume) <= OBJECT_NAME_MAX)
		return dns1123_subdomain(ret);
	fnv128_hex(node, volume, hash);
	snprintf(ret, OBJECT_NAME_MAX + 1, "va-%s", hash);
	return true;
}

void label_value(const char *name, char ret[LABEL_VALUE_MAX + 1])
{
	char hash[33];

	if (dns1123_subdomain(name) && strlen(name) <= LABEL_VALUE_MAX) {
		snprintf(ret, LABEL_VALUE_MAX + 1, "%s", name);
		return;
	}
	fnv128_hex(name, "", hash);
	snprintf(ret, LABEL_VALUE_MAX + 1, "h-%s", hash);
}
