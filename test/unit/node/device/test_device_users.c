/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that wait for a function, and the one that undoes its change. */
#include <string.h>

#include "node/device/device_users.h"
#include "test/lib/suite.h"

#define VF "0000:01:00.1"

static const struct pci_change change = { .pci = VF, .driver = "nvme", .override_set = true };

static void join(struct device_user *u)
{
	ck_assert(device_user_join(u, "/sys", VF));
}

START_TEST(one_user_gives_back_what_it_changed)
{
	struct device_user u = { 0 };

	join(&u);
	device_user_changed(&u, &change);
	ck_assert(device_user_fail(&u));
	ck_assert_str_eq(u.change.driver, "nvme");
	device_user_left(&u);
}
END_TEST

START_TEST(one_that_changed_nothing_or_never_joined_gives_nothing_back)
{
	struct device_user u = { 0 }, never = { 0 };

	join(&u);
	ck_assert(!device_user_fail(&u));
	ck_assert(!device_user_fail(&never));
	device_user_succeed(&never);
	/* It may join again. */
	join(&u);
	device_user_succeed(&u);
}
END_TEST

START_TEST(nobody_joins_while_it_is_given_back)
{
	struct device_user u = { 0 }, late = { 0 }, other = { 0 };

	join(&u);
	device_user_changed(&u, &change);
	ck_assert(device_user_fail(&u));
	ck_assert(!device_user_join(&late, "/sys", VF));
	ck_assert_str_eq(late.pci, "");
	/* Other functions, and other trees, are not affected. */
	ck_assert(device_user_join(&other, "/sys", "0000:01:00.2"));
	device_user_succeed(&other);
	ck_assert(device_user_join(&other, "/other/sys", VF));
	device_user_succeed(&other);
	device_user_left(&u);
	join(&late);
	device_user_succeed(&late);
}
END_TEST

START_TEST(a_function_that_another_user_lives_on_is_not_given_back)
{
	struct device_user loser = { 0 }, winner = { 0 };

	join(&loser);
	join(&winner);
	device_user_changed(&loser, &change);
	device_user_succeed(&winner);
	ck_assert(!device_user_fail(&loser));
}
END_TEST

START_TEST(the_duty_goes_to_one_that_still_waits)
{
	struct device_user first = { 0 }, last = { 0 };

	join(&first);
	join(&last);
	device_user_changed(&first, &change);
	ck_assert(!device_user_fail(&first));
	ck_assert_str_eq(last.change.pci, VF);
	ck_assert(device_user_fail(&last));
	device_user_left(&last);
}
END_TEST

START_TEST(of_two_changes_the_state_before_the_first_counts)
{
	struct pci_change earlier = change, later = change;
	struct device_user first = { 0 }, last = { 0 };

	/* The second user found the override of the first, which must not be restored. */
	memcpy(earlier.override_before, "pci-stub", sizeof("pci-stub"));
	join(&first);
	join(&last);
	device_user_changed(&first, &earlier);
	device_user_changed(&last, &later);
	ck_assert(!device_user_fail(&first));
	ck_assert(device_user_fail(&last));
	ck_assert_str_eq(last.change.override_before, "pci-stub");
	device_user_left(&last);
}
END_TEST

START_TEST(one_user_at_a_time_changes_the_function)
{
	struct device_user one = { 0 }, two = { 0 }, other = { 0 };

	join(&one);
	join(&two);
	ck_assert(device_user_join(&other, "/sys", "0000:01:00.2"));
	ck_assert(device_user_begin_change(&one));
	ck_assert(!device_user_begin_change(&two));
	ck_assert(device_user_begin_change(&other));
	device_user_end_change(&one);
	ck_assert(device_user_begin_change(&two));
	ck_assert(!device_user_begin_change(&one));
	device_user_end_change(&two);
	device_user_end_change(&other);
	device_user_succeed(&one);
	device_user_succeed(&two);
	device_user_succeed(&other);
}
END_TEST

SUITE("device_users", one_user_gives_back_what_it_changed,
      one_that_changed_nothing_or_never_joined_gives_nothing_back,
      nobody_joins_while_it_is_given_back, a_function_that_another_user_lives_on_is_not_given_back,
      the_duty_goes_to_one_that_still_waits, of_two_changes_the_state_before_the_first_counts,
      one_user_at_a_time_changes_the_function);
