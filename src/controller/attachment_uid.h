/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uid of an attachment in 16 bytes. An API server generates UUIDs, whose text has 36
 * characters.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ATTACHMENT_UID_MAX 36 /* characters */

struct attachment_uid {
	uint64_t w[2]; /* the first 16 digits, and the others */
};

bool attachment_uid_same(struct attachment_uid a, struct attachment_uid b);
/*
 * Parses "01234567-89ab-cdef-0123-456789abcdef", only in lower case as an API server writes it, so
 * that printing the uid gives the same text. Returns false if the text has a different format; *ret
 * is then undefined.
 */
bool attachment_uid_read(const char *text, struct attachment_uid *ret);
void attachment_uid_print(struct attachment_uid uid, char ret[ATTACHMENT_UID_MAX + 1]);
