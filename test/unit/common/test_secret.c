/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for passphrases: empty at first, copied whole, and gone after its end. */
#include "test/lib/suite.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/secret.h"

START_TEST(a_copy_is_equal_and_independent)
{
	struct passphrases *p AUTO(passphrases_free) = passphrases_new();
	struct passphrases *copy AUTO(passphrases_free) = NULL;

	ck_assert_uint_eq(p->current.n, 0);
	ck_assert_uint_eq(p->previous.n, 0);
	p->current.n = SECRET_MAX;
	memset(p->current.text, 'x', SECRET_MAX);
	copy = passphrases_copy(p);
	ck_assert_int_eq(memcmp(copy, p, sizeof(*p)), 0);
	copy->current.n = 0;
	ck_assert_uint_eq(p->current.n, SECRET_MAX);
	ck_assert(passphrases_copy(NULL) == NULL);
	ck_assert(passphrases_free(NULL) == NULL);
}
END_TEST

START_TEST(after_its_end_the_memory_is_not_mapped)
{
	struct passphrases *p = passphrases_new();
	unsigned char resident;
	void *page = p;

	ck_assert_int_eq(mincore(page, 1, &resident), 0);
	passphrases_free(p);
	ck_assert_int_eq(mincore(page, 1, &resident), -1);
	ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

SUITE("secret", a_copy_is_equal_and_independent, after_its_end_the_memory_is_not_mapped);
