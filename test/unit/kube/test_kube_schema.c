/* SPDX-License-Identifier: Apache-2.0 */
/* A kind's schema, and other answers in its place. */
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/mem.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define PATH "/openapi/v3/apis/storage.dpu.nvidia.com/v1alpha1"
#define KIND(version, kind)                                                                    \
	"\"x-kubernetes-group-version-kind\":[{\"group\":\"storage.dpu.nvidia.com\",\"kind\":" \
	"\"" kind "\",\"version\":\"" version "\"}]"
#define DOCUMENT(schemas) "{\"openapi\":\"3.0.0\",\"components\":{\"schemas\":{" schemas "}}}"

START_TEST(the_schema_of_the_kind_is_picked)
{
	struct json *schema AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	struct kube_fake f;

	kube_fake_start(&f, NULL);
	fake_http_on(
		f.server,
		(struct fake_reply) {
			.on = "GET " PATH,
			.body = DOCUMENT(
				"\"a\":{\"type\":\"a\"},\"b\":{\"type\":\"b\"," KIND("v1alpha1", "DPUVolumeList") "},\"c\":{\"type\":\"c\"," KIND(
					"v1",
					"DPUVolume") "},\"d\":{\"type\":\"d\"," KIND("v1alpha1",
	                                                                             "DPUVolume") "}") });
	ck_assert_msg(kube_schema(f.kube, &kind_volume, wait_limit(), &schema, &err) == 0, "%s",
	              err.msg);
	ck_assert_str_eq(json_str(schema, "type"), "d");
	ck_assert_uint_eq(fake_http_count(f.server, "GET *"), 1);
	kube_fake_stop(&f);
}
END_TEST

static const struct {
	const char *what, *body;
	int status;
	enum err_code code;
	const char *text;
	unsigned requests; /* 0: several */
} rows[] = {
	{ "no right", STATUS("Forbidden", "forbidden: cannot get path"), 403, ERR_PERMISSION,
	  "forbidden: cannot get path", 2 },
	{ "no such document", "404 page not found\n", 404, ERR_PRECONDITION, "get dpuvolumes", 2 },
	{ "a server in trouble", STATUS("InternalError", "etcd"), 500, ERR_UNAVAILABLE, "etcd", 0 },
	{ "a page", "<html>no</html>", 200, ERR_UNAVAILABLE, "JSON", 1 },
	{ "a proxy's refusal", "<html>no</html>", 403, ERR_UNAVAILABLE, "proxy", 2 },
	{ "null", "null", 200, ERR_UNAVAILABLE, "has no schema of DPUVolume", 1 },
	{ "another group's document", DOCUMENT("\"a\":{" KIND("v1", "DPUVolume") "}"), 200,
	  ERR_UNAVAILABLE, "has no schema of DPUVolume storage.dpu.nvidia.com/v1alpha1", 1 },
	{ "an endless page", NULL, 200, ERR_UNAVAILABLE, "incomplete answer", 1 },
};

START_TEST(what_is_no_schema_is_an_error_that_names_the_document)
{
	size_t n = 30 * 1024 * 1024;
	char *large AUTO(free) = NULL;
	struct json *schema = NULL;
	struct err err = ERR_INIT;
	struct kube_fake f;

	if (!rows[_i].body) {
		large = xmalloc(n + 1);
		memset(large, ' ', n);
		large[n] = 0;
	}
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " PATH,
	                                             .status = rows[_i].status,
	                                             .body = large ? large : rows[_i].body });
	ck_assert_int_eq(kube_schema(f.kube, &kind_volume, wait_limit(), &schema, &err), -1);
	ck_assert_msg(err.code == rows[_i].code, "%s: %s %s", rows[_i].what,
	              err_code_name(err.code), err.msg);
	ck_assert_msg(strstr(err.msg, PATH) && strstr(err.msg, rows[_i].text), "%s: %s",
	              rows[_i].what, err.msg);
	if (rows[_i].requests)
		ck_assert_uint_eq(fake_http_count(f.server, "GET *"), rows[_i].requests);
	else
		ck_assert_uint_gt(fake_http_count(f.server, "GET *"), 1);
	kube_fake_stop(&f);
}
END_TEST

SUITE("kube schema", the_schema_of_the_kind_is_picked,
      LOOP(what_is_no_schema_is_an_error_that_names_the_document, ARRAY_LEN(rows)));
