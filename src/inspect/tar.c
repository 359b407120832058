/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the headers of ustar, as in POSIX, whose fields are octal digits. No directories, links or
 * owners.
 */
#include "inspect/tar.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"

#define BLOCK 512

struct header {
	char name[TAR_NAME_MAX], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type[1];
	char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static int tar_write(const struct tar *t, const void *bytes, size_t n, struct err *err)
{
	return file_write_all(t->fd, "the archive", bytes, n, err);
}

/* Writes digits to all characters of the field except the last. */
static void set_octal(char *field, size_t n, unsigned long long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*llo", (int)n - 1, value);
	memcpy(field, text, n);
}

/*
 * Writes the sum of all bytes, in which the sum's own field counts as spaces. The field ends with a
 * NUL and a space.
 */
static void set_sum(struct header *h)
{
	const unsigned char *at = (const unsigned char *)h;
	unsigned sum = 0;

	memset(h->sum, ' ', sizeof(h->sum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += at[i];
	set_octal(h->sum, sizeof(h->sum) - 1, sum);
}

int tar_add(const struct tar *t, const char *name, const char *bytes, size_t n, struct err *err)
{
	static const char zeros[BLOCK];
	struct header h = { .type = { '0' }, .magic = "ustar", .version = { '0', '0' } };
	char path[TAR_NAME_MAX + 1];
	int length = snprintf(path, sizeof(path), "%s%s", t->folder, name);

	assert(length <= TAR_NAME_MAX);
	memcpy(h.name, path, (size_t)length);
	set_octal(h.mode, sizeof(h.mode), 0600);
	set_octal(h.uid, sizeof(h.uid), 0);
	set_octal(h.gid, sizeof(h.gid), 0);
	set_octal(h.size, sizeof(h.size), n);
	set_octal(h.mtime, sizeof(h.mtime), (unsigned long long)t->mtime);
	set_sum(&h);
	if (tar_write(t, &h, sizeof(h), err) || tar_write(t, bytes, n, err))
		return -1;
	return n % BLOCK ? tar_write(t, zeros, BLOCK - n % BLOCK, err) : 0;
}

int tar_end(const struct tar *t, struct err *err)
{
	static const char zeros[2 * BLOCK];

	return tar_write(t, zeros, sizeof(zeros), err);
}
