/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a uid between a number of 128 bits and its text. */
#include "controller/attachment_uid.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool attachment_uid_same(struct attachment_uid a, struct attachment_uid b)
{
	return a.w[0] == b.w[0] && a.w[1] == b.w[1];
}

bool attachment_uid_read(const char *text, struct attachment_uid *ret)
{
	static const char digits[] = "0123456789abcdef";

	*ret = (struct attachment_uid) { .w = { 0 } };
	for (int i = 0, n = 0; i < ATTACHMENT_UID_MAX; i++) {
		const char *digit;

		if (i == 8 || i == 13 || i == 18 || i == 23) {
			if (text[i] != '-')
				return false;
			continue;
		}
		digit = text[i] ? strchr(digits, text[i]) : NULL;
		if (!digit)
			return false;
		ret->w[n / 16] = ret->w[n / 16] << 4 | (uint64_t)(digit - digits);
		n++;
	}
	return text[ATTACHMENT_UID_MAX] == 0;
}

void attachment_uid_print(struct attachment_uid uid, char ret[ATTACHMENT_UID_MAX + 1])
{
	snprintf(ret, ATTACHMENT_UID_MAX + 1, "%08" PRIx32 "-%04x-%04x-%04x-%012" PRIx64,
	         (uint32_t)(uid.w[0] >> 32), (unsigned)(uid.w[0] >> 16 & 0xffff),
	         (unsigned)(uid.w[0] & 0xffff), (unsigned)(uid.w[1] >> 48),
	         uid.w[1] & UINT64_C(0xffffffffffff));
}
