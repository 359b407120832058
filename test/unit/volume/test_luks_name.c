/* SPDX-License-Identifier: Apache-2.0 */
/* The names of an encrypted volume: headers that exist were written with them. */
#include "test/lib/suite.h"

#include <string.h>

#include "common/str.h"
#include "volume/luks_name.h"

START_TEST(the_names_of_a_volume_never_change)
{
	struct luks_name a = { .uuid = "" }, b = { .uuid = "" };

	luks_name("pvc-1", &a);
	ck_assert_str_eq(a.label, "pvc-1");
	ck_assert_uint_eq(strlen(a.uuid), 36);
	ck_assert_msg(str_has_prefix(a.mapping, LUKS_MAPPING_PREFIX) &&
	                      str_has_suffix(a.mapping, a.uuid),
	              "%s", a.mapping);
	luks_name("pvc-2", &b);
	ck_assert_str_ne(a.uuid, b.uuid);
	luks_name("a-volume-id-that-is-longer-than-a-label-of-luks-may-be", &b);
	ck_assert_str_eq(b.label, "a-volume-id-that-is-longer-than-a-label-of-luks");
	ck_assert_str_eq(a.uuid, "33d925b1-a938-863e-8954-dd39591b8aae");
}
END_TEST

SUITE("luks_name", the_names_of_a_volume_never_change);
