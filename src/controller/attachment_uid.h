/* SPDX-License-Identifier: Apache-2.0 */
/* The uid of an attachment in 16 bytes: an API server's are UUIDs, 36 characters of text. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ATTACHMENT_UID_MAX 36 /* characters */

struct attachment_uid {
	uint64_t w[2]; /* the first 16 digits, and the others */
};

bool attachment_uid_same(struct attachment_uid a, struct attachment_uid b);
/*
 * "01234567-89ab-cdef-0123-456789abcdef", in lower case as an API server writes it, so that it is
 * printed as it was read. False: the text has another form, and *ret is of no use.
 */
bool attachment_uid_read(const char *text, struct attachment_uid *ret);
void attachment_uid_print(struct attachment_uid uid, char ret[ATTACHMENT_UID_MAX + 1]);
