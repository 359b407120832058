/* SPDX-License-Identifier: Apache-2.0 */
/* The service behind `snap-csi-plugin log-level`. */
#include <stdint.h>
#include <string.h>

#include "csi/driver.pb-c.h"

#include "common/log.h"
#include "rpc/log_level.h"
#include "test/lib/suite.h"

static const struct {
	const char *what;
	int32_t level;
	enum err_code code;
	int after;
} rows[] = {
	{ "more is logged", 4, ERR_OK, 4 },
	{ "less is logged", 0, ERR_OK, 0 },
	{ "the largest of --v", INT32_MAX, ERR_OK, INT32_MAX },
	{ "a negative one changes nothing", -1, ERR_INVALID, 2 },
};

static char logged[500];

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	snprintf(logged, sizeof(logged), "%s", line);
}

START_TEST(the_verbosity_is_set_and_the_one_before_is_told)
{
	struct rpc_service service = log_level_service();
	Snapcsi__V1__SetLogLevelRequest request = SNAPCSI__V1__SET_LOG_LEVEL_REQUEST__INIT;
	ProtobufCMessage *resp = NULL;
	struct err err = ERR_INIT;
	struct rpc_call call;

	log_setup(2, false);
	log_redirect(keep_line, NULL);
	*logged = '\0';
	request.level = rows[_i].level;
	rpc_call_init(&call, "SetLogLevel");
	ck_assert(service.methods[0].on_poller);
	IGNORE_RESULT(service.methods[0].handler(service.self, &call, &request.base, &resp, &err));
	log_redirect(NULL, NULL);
	ck_assert_msg(err.code == rows[_i].code, "%s: %s", rows[_i].what, err.msg);
	ck_assert_msg(log_verbosity() == rows[_i].after, "%s", rows[_i].what);
	ck_assert_msg(!err.code == !!strstr(logged, "before=2"), "%s: %s", rows[_i].what, logged);
	if (!err.code) {
		ck_assert_int_eq(((Snapcsi__V1__SetLogLevelResponse *)resp)->before, 2);
		ck_assert_int_eq(((Snapcsi__V1__SetLogLevelResponse *)resp)->started_with, 2);
	}
	rpc_call_clear(&call);
}
END_TEST

SUITE("log_level", LOOP(the_verbosity_is_set_and_the_one_before_is_told, ARRAY_LEN(rows)));
