/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for passphrases. It is locked (mlock(2)), so that it is not swapped out, is not part of a
 * core dump (MADV_DONTDUMP), and is overwritten before it is freed. Any thread; a value belongs to
 * one owner at a time.
 */
#pragma once

#include <stddef.h>

#include "common/cleanup.h"

#define SECRET_MAX 512 /* bytes of one passphrase */

struct secret {
	size_t n; /* bytes of `text`; 0: not given */
	char text[SECRET_MAX];
};

/* The passphrases of an encrypted volume. */
struct passphrases {
	struct secret current;
	struct secret previous; /* the one before, during a rotation */
};

/* Returns an empty value. Never NULL: the process ends if there is no memory. */
struct passphrases *passphrases_new(void);
struct passphrases *passphrases_copy(const struct passphrases *p); /* NULL: NULL */
/* Overwrites and frees the value (NULL: nothing). Returns NULL. */
struct passphrases *passphrases_free(struct passphrases *p);
DEFINE_AUTO(struct passphrases *, passphrases_free);
