/* SPDX-License-Identifier: Apache-2.0 */
/* Whether volumes can grow is read until there is an answer, and then never again. */
#include <string.h>

#include "controller/expandable.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"
#include "test/lib/wait.h"

static struct controller c = { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };

static const char may[] =
	"{\"properties\":{\"spec\":{\"properties\":{\"resources\":{\"properties\":"
	"{\"requests\":{\"additionalProperties\":{}}}}}}}}";
static const char may_not[] = "{\"x-kubernetes-validations\":[{\"rule\":\"self == oldSelf\"}]}";

static void asks(const char *schema, int rc, int requests)
{
	struct err err = ERR_INIT;

	fake.schema = schema;
	ck_assert_int_eq(controller_expandable(&c, wait_limit(), &err), rc);
	ck_assert_int_eq(fake.schemas, requests);
	ck_assert((rc == -1) == (err.code != ERR_OK));
}

START_TEST(a_driver_that_starts_before_its_api_server_learns_it_later)
{
	fake_reset();
	c.expands = 0;
	asks(NULL, -1, 1);
	ck_assert(!controller_expands(&c, wait_limit()));
	ck_assert_int_eq(fake.schemas, 2);
	asks(may, 0, 3);
	asks(may_not, 0, 3);
	ck_assert(controller_expands(&c, wait_limit()));
	fake_reset();
}
END_TEST

START_TEST(that_they_cannot_grow_is_remembered_too)
{
	fake_reset();
	c.expands = 0;
	asks(may_not, EXPANDABLE_NOT, 1);
	asks(may, EXPANDABLE_NOT, 1);
	ck_assert(!controller_expands(&c, wait_limit()));
	ck_assert_int_eq(fake.schemas, 1);
	fake_reset();
}
END_TEST

SUITE("expandable", a_driver_that_starts_before_its_api_server_learns_it_later,
      that_they_cannot_grow_is_remembered_too);
