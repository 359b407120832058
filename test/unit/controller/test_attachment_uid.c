/* SPDX-License-Identifier: Apache-2.0 */
/* uids as numbers: either printed exactly as read, or not accepted. */
#include "controller/attachment_uid.h"

#include "test/lib/suite.h"

static const struct {
	const char *text;
	bool read;
} rows[] = {
	{ "01234567-89ab-cdef-0123-456789abcdef", true },
	{ "00000000-0000-0000-0000-000000000000", true },
	{ "ffffffff-ffff-ffff-ffff-ffffffffffff", true },
	{ "f0000000-0000-4000-8000-00000000000f", true },
	{ "", false },
	{ "u1", false },
	{ "01234567-89AB-CDEF-0123-456789ABCDEF", false },
	{ "01234567-89ab-cdef-0123-456789abcde", false },
	{ "01234567-89ab-cdef-0123-456789abcdef0", false },
	{ "0123456789ab-cdef-0123-456789abcdef-0", false },
	{ "01234567-89ab-cdef-0123-456789abcdeg", false },
	{ "01234567-89ab-cdef-0123--56789abcdef", false },
};

START_TEST(a_uid_is_printed_as_it_was_read)
{
	struct attachment_uid uid;
	char printed[ATTACHMENT_UID_MAX + 1];

	ck_assert_msg(attachment_uid_read(rows[_i].text, &uid) == rows[_i].read, "%s",
	              rows[_i].text);
	if (!rows[_i].read)
		return;
	attachment_uid_print(uid, printed);
	ck_assert_str_eq(printed, rows[_i].text);
}
END_TEST

START_TEST(uids_are_the_same_when_both_halves_are)
{
	struct attachment_uid uid = { { 1, 2 } };

	ck_assert(attachment_uid_same(uid, uid));
	ck_assert(!attachment_uid_same(uid, (struct attachment_uid) { { 1, 3 } }));
	ck_assert(!attachment_uid_same(uid, (struct attachment_uid) { { 3, 2 } }));
}
END_TEST

SUITE("attachment_uid", LOOP(a_uid_is_printed_as_it_was_read, ARRAY_LEN(rows)),
      uids_are_the_same_when_both_halves_are);
