/* SPDX-License-Identifier: Apache-2.0 */
/* When the controller reports readiness. */
#include <string.h>

#include "controller/attachment_index.h"
#include "controller/ready.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"
#include "test/unit/controller/kube_memory.h"

static struct controller c = { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };

START_TEST(an_api_server_that_serves_both_kinds_is_enough)
{
	struct err err = ERR_INIT;

	fake_reset();
	ck_assert_int_eq(controller_check_api(&c, wait_limit(), &err), 0);
	ck_assert_int_eq(fake.gets, 2);
	fake_reset();
}
END_TEST

static const struct {
	const char *plural;
	enum err_code code;
	const char *text;
} refusals[] = {
	{ "dpuvolumes", ERR_UNAVAILABLE, "connection refused" },
	{ "dpuvolumes", ERR_PRECONDITION, "API group is not served" },
	{ "dpuvolumeattachments", ERR_PERMISSION, "dpuvolumeattachments is forbidden" },
};

START_TEST(what_is_refused_is_told)
{
	struct err err = ERR_INIT;

	fake_reset();
	fake_refuse("get", refusals[_i].plural, refusals[_i].code, refusals[_i].text);
	ck_assert_int_eq(controller_check_api(&c, wait_limit(), &err), -1);
	ck_assert_ptr_nonnull(strstr(err.msg, refusals[_i].text));
	fake_reset();
}
END_TEST

START_TEST(attachments_that_are_still_being_read_are_waited_for)
{
	struct err err = ERR_INIT;

	fake_reset();
	ck_assert_int_eq(controller_check_attachments(&c, &err), 0); /* without an index: lists */
	fake.follower.start = KUBE_FOLLOW_BEGIN;
	c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
	ck_assert_int_eq(controller_check_attachments(&c, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.msg, "are still being read: 0 so far"));
	fake_tell(KUBE_FOLLOW_COMPLETE, NULL);
	err_clear(&err);
	ck_assert_int_eq(controller_check_attachments(&c, &err), 0);
	c.attachments = attachment_index_free(c.attachments);
	fake_reset();
}
END_TEST

SUITE("ready", an_api_server_that_serves_both_kinds_is_enough,
      LOOP(what_is_refused_is_told, ARRAY_LEN(refusals)),
      attachments_that_are_still_being_read_are_waited_for);
