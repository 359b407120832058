/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates each value in pages of its own, because locks and dump flags apply to whole pages. A
 * lock that the kernel refuses (RLIMIT_MEMLOCK) is not an error: then the page may be swapped out.
 */
#include "common/secret.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct passphrases *passphrases_new(void)
{
	void *p = mmap(NULL, sizeof(struct passphrases), PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort(); /* as xmalloc() */
	IGNORE_RESULT(mlock(p, sizeof(struct passphrases)));
	IGNORE_RESULT(madvise(p, sizeof(struct passphrases), MADV_DONTDUMP));
	return p;
}

struct passphrases *passphrases_copy(const struct passphrases *p)
{
	struct passphrases *copy = p ? passphrases_new() : NULL;

	if (copy)
		*copy = *p;
	return copy;
}

struct passphrases *passphrases_free(struct passphrases *p)
{
	if (!p)
		return NULL;
	explicit_bzero(p, sizeof(*p));
	munmap(p, sizeof(*p));
	return NULL;
}
