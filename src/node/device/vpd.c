/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses VPD resources and their fields. Checks every length against the remaining bytes before it
 * uses the length; allocates nothing.
 */
#include "node/device/vpd.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum {
	TAG_LARGE = 0x80, /* otherwise a small resource: name in bits 3-6, length in bits 0-2 */
	TAG_VPD_R = 0x90,
	TAG_VPD_W = 0x91,
	SMALL_NAME_END = 0x0f,
};

struct vpd_bytes {
	const uint8_t *p;
	size_t n;
};

struct vpd_resource {
	uint8_t tag; /* large: the whole byte; small: 0 */
	struct vpd_bytes body;
};

/* Cuts off the first n bytes; returns false if there are fewer. */
static bool vpd_cut(struct vpd_bytes *from, size_t n, struct vpd_bytes *ret)
{
	if (n > from->n)
		return false;
	*ret = (struct vpd_bytes) { from->p, n };
	from->p += n;
	from->n -= n;
	return true;
}

/*
 * Returns the next resource, or false at the end tag, at the end of the bytes, and for an
 * impossible length.
 */
static bool next_resource(struct vpd_bytes *rest, struct vpd_resource *ret)
{
	struct vpd_bytes head;

	if (!vpd_cut(rest, 1, &head))
		return false;
	if (!(head.p[0] & TAG_LARGE)) {
		ret->tag = 0;
		return head.p[0] >> 3 != SMALL_NAME_END && vpd_cut(rest, head.p[0] & 7, &ret->body);
	}
	ret->tag = head.p[0];
	return vpd_cut(rest, 2, &head) &&
	       vpd_cut(rest, (size_t)head.p[0] | (size_t)head.p[1] << 8, &ret->body);
}

static bool trimmed_away(uint8_t c)
{
	return c == '\0' || c == ' ' || (c >= '\t' && c <= '\r');
}

static bool copy_value(struct vpd_bytes value, char ret[VPD_VALUE_MAX])
{
	while (value.n > 0 && trimmed_away(value.p[value.n - 1]))
		value.n--;
	while (value.n > 0 && trimmed_away(value.p[0])) {
		value.p++;
		value.n--;
	}
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] < 0x20 || value.p[i] > 0x7e)
			return false;
	assert(value.n < VPD_VALUE_MAX); /* the length field has one byte */
	memcpy(ret, value.p, value.n);
	ret[value.n] = '\0';
	return true;
}

enum search {
	FOUND,
	NOT_HERE,
	DAMAGED, /* data after this offset cannot be trusted */
};

static enum search find_in_resource(struct vpd_bytes fields, const char *keyword,
                                    struct vpd_bytes *ret)
{
	struct vpd_bytes head;

	while (fields.n > 0) {
		if (!vpd_cut(&fields, 3, &head) || !vpd_cut(&fields, head.p[2], ret))
			return DAMAGED;
		if (memcmp(head.p, keyword, 2) == 0)
			return FOUND;
	}
	return NOT_HERE;
}

bool vpd_field(const char *bytes, size_t n, const char *keyword, char ret[VPD_VALUE_MAX])
{
	struct vpd_bytes rest = { (const uint8_t *)bytes, n }, value;
	struct vpd_resource r;

	while (next_resource(&rest, &r)) {
		enum search found;

		if (r.tag != TAG_VPD_R && r.tag != TAG_VPD_W)
			continue;
		found = find_in_resource(r.body, keyword, &value);
		if (found != NOT_HERE)
			return found == FOUND && copy_value(value, ret);
	}
	return false;
}
