/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel reports which mount option it refuses. */
#include "test/lib/suite.h"

#include <string.h>

#include "node/mount/mount_option.h"
#include "test/lib/skip.h"

START_TEST(the_kernel_says_which_option_it_refuses_and_why)
{
	static const struct {
		const char *fs_type, *option;
		bool refused;
		const char *why;
	} rows[] = {
		{ "ext4", "nosuch", true, "Unknown parameter 'nosuch'" },
		{ "ext4", "nosuch=1", true, "Unknown parameter 'nosuch'" },
		{ "ext4", "commit=never", true, "commit" },
		{ "ext4", "commit=5", false, "" },
		{ "ext4", "discard", false, "" },
		{ "ext4", "ro", false, "" },
		{ "tmpfs", "size=1m", false, "" },
		{ "tmpfs", "size=x", true, "size" },
		{ "nosuchfs", "discard", false, "" },
		{ "ext4", "", true, "" },
	};
	struct str why AUTO(str_clear) = STR_INIT(400);

	SKIP_UNLESS_ROOT();
	ck_assert_msg(mount_option_is_refused(rows[_i].fs_type, rows[_i].option, &why) ==
	                      rows[_i].refused,
	              "%s %s: %s", rows[_i].fs_type, rows[_i].option, why.ptr);
	ck_assert_msg(strstr(why.ptr, rows[_i].why) != NULL, "%s", why.ptr);
	ck_assert_msg(!strchr(why.ptr, '\n'), "%s", why.ptr);
	ck_assert(mount_option_is_refused(rows[_i].fs_type, rows[_i].option, NULL) ==
	          rows[_i].refused);
}
END_TEST

SUITE("mount_option", LOOP(the_kernel_says_which_option_it_refuses_and_why, 10));
