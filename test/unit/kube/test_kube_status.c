/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes and texts for HTTP answers and Status objects, row by row. */
#include "kube/kube_status.h"

#include <string.h>

#include "test/lib/suite.h"

#define S(fields) "{\"kind\":\"Status\"," fields "}"

static const struct kube_kind volume = { .group = "storage.dpu.nvidia.com",
	                                 .version = "v1alpha1",
	                                 .plural = "dpuvolumes",
	                                 .kind = "DPUVolume" };
static const struct kube_target target = { .verb = "get",
	                                   .kind = &volume,
	                                   .ns = "ns",
	                                   .name = "a",
	                                   .server = "https://10.0.0.1",
	                                   .source = "kubeconfig /k, context c" };

START_TEST(an_answer_becomes_a_code_and_a_text)
{
	static const struct {
		const char *what;
		int status;
		const char *body;
		enum err_code code;
		const char *text; /* a part of the error's text */
	} rows[] = {
		{ "bad request", 400, S("\"message\":\"bad field\""), ERR_INVALID,
		  "get dpuvolumes.storage.dpu.nvidia.com: bad field" },
		{ "unprocessable", 422, S("\"message\":\"spec.size: Invalid value\""), ERR_INVALID,
		  "spec.size: Invalid value" },
		{ "unauthenticated", 401, S("\"message\":\"Unauthorized\""), ERR_UNAUTHENTICATED,
		  "credentials of kubeconfig /k, context c: Unauthorized" },
		{ "forbidden", 403, S("\"message\":\"User x cannot get\""), ERR_PERMISSION,
		  "not allowed to get dpuvolumes (API group storage.dpu.nvidia.com) in namespace "
		  "ns: "
		  "User x cannot get; check the Role or ClusterRole of" },
		{ "forbidden by a proxy", 403, "<html>", ERR_UNAVAILABLE, "check for a proxy" },
		{ "denied by a webhook", 403,
		  S("\"message\":\"admission webhook \\\"g.sh\\\" denied the request: no team\""),
		  ERR_PERMISSION,
		  "get dpuvolumes.storage.dpu.nvidia.com: admission webhook \"g.sh\" denied the "
		  "request: no team" },
		{ "denied by a policy", 403,
		  S("\"message\":\"dpuvolumes \\\"a\\\" is forbidden: ValidatingAdmissionPolicy 'p' "
		    "denied request\""),
		  ERR_PERMISSION,
		  "get dpuvolumes.storage.dpu.nvidia.com: dpuvolumes \"a\" is forbidden: Validating" },
		{ "a quota demands a field", 403,
		  S("\"message\":\"dpuvolumes \\\"a\\\" is forbidden: failed quota: q: must specify "
		    "requests.storage\""),
		  ERR_PERMISSION, "get dpuvolumes.storage.dpu.nvidia.com: dpuvolumes \"a\" is" },
		{ "forbidden by RBAC", 403,
		  S("\"message\":\"dpuvolumes is forbidden: User \\\"u\\\" cannot get resource\""),
		  ERR_PERMISSION, "check the Role or ClusterRole of" },
		{ "forbidden without a word", 403, S("\"reason\":\"Forbidden\""), ERR_PERMISSION,
		  "check the Role or ClusterRole of" },
		{ "http to a TLS port", 400, "Client sent an HTTP request to an HTTPS server.\n",
		  ERR_UNAVAILABLE,
		  "HTTP 400, which is not an answer of an API server (\"Client sent an HTTP request to an "
		  "HTTPS server.\"); check for a proxy" },
		{ "a page with a title", 407,
		  "<!DOCTYPE html><html><head><style>a {}</style>\n<title>\n Login  needed</title>"
		  "</head><body>x</body>",
		  ERR_UNAVAILABLE, "an API server (\"Login needed\"); check" },
		{ "a page without one", 404,
		  "<html><body><h1>Not here</h1><p>nginx</p></body></html>", ERR_UNAVAILABLE,
		  "an API server (\"Not here\"); check" },
		{ "a page that repeats the request", 400,
		  "GET / HTTP/1.1\nAuthorization: Bearer token-1\n", ERR_UNAVAILABLE,
		  "an API server; check" },
		{ "a long page", 400,
		  "0123456789012345678901234567890123456789012345678901234567890123456789"
		  "0123456789012345678901234567890123456789012345678901234567890123456789"
		  "0123456789012345678901234567890123456789012345678901234567890123456789",
		  ERR_UNAVAILABLE, "012345\"); check" },
		{ "a gateway's page", 502,
		  "<html><head><title>502 Bad Gateway</title></head></html>", ERR_UNAVAILABLE,
		  "HTTP 502 (\"502 Bad Gateway\")" },
		{ "no login at a proxy", 401, "{}", ERR_UNAVAILABLE, "check for a proxy" },
		{ "a list instead of a Status", 422, "{\"kind\":\"List\"}", ERR_UNAVAILABLE,
		  "HTTP 422, which is not an answer of an API server" },
		{ "quota", 403,
		  S("\"reason\":\"Forbidden\",\"message\":\"dpuvolumes \\\"a\\\" is forbidden: "
		    "exceeded "
		    "quota: q\""),
		  ERR_EXHAUSTED, "exceeded quota" },
		{ "namespace going away", 403,
		  S("\"message\":\"being terminated\",\"details\":{\"causes\":[{\"reason\":"
		    "\"NamespaceTerminating\"}]}"),
		  ERR_PRECONDITION, "being terminated" },
		{ "group not served", 404, "404 page not found\n", ERR_PRECONDITION,
		  "does not serve dpuvolumes of API group storage.dpu.nvidia.com/v1alpha1" },
		{ "group not served, as a Status", 404,
		  S("\"message\":\"the server could not find the requested resource\""),
		  ERR_PRECONDITION, "CustomResourceDefinitions" },
		{ "namespace missing", 404,
		  S("\"message\":\"namespaces \\\"ns\\\" not "
		    "found\",\"details\":{\"kind\":\"namespaces\"}"),
		  ERR_PRECONDITION, "namespaces \"ns\" not found" },
		{ "another object missing", 404,
		  S("\"message\":\"b not found\",\"details\":{\"name\":\"b\"}"), ERR_UNAVAILABLE,
		  "b not found" },
		{ "a proxy's page", 404, "<html>404 page not found", ERR_UNAVAILABLE,
		  "check for a proxy" },
		{ "exists", 409, S("\"reason\":\"AlreadyExists\",\"message\":\"exists\""),
		  ERR_ABORTED, "exists" },
		{ "conflict", 409, S("\"reason\":\"Conflict\",\"message\":\"modified\""),
		  ERR_ABORTED, "modified" },
		{ "expired", 410, S("\"reason\":\"Expired\""), ERR_ABORTED, "HTTP 410" },
		{ "too large", 413, S("\"message\":\"limit\""), ERR_INVALID, "limit" },
		{ "too large for a proxy", 413, "", ERR_UNAVAILABLE, "HTTP 413" },
		{ "too many", 429, S("\"message\":\"slow down\""), ERR_UNAVAILABLE, "slow down" },
		{ "teapot", 418, S("\"message\":\"tea\""), ERR_INTERNAL, "tea" },
		{ "internal", 500, S("\"message\":\"etcd\""), ERR_UNAVAILABLE, "etcd" },
		{ "unavailable", 503, "", ERR_UNAVAILABLE, "HTTP 503" },
		{ "redirect", 302, "", ERR_UNAVAILABLE, "HTTP 302" },
		{ "success that cannot be read", 200, "x", ERR_UNAVAILABLE, "HTTP 200" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		struct http_result r = { .end = HTTP_ANSWERED,
			                 .status = rows[i].status,
			                 .body = (char *)rows[i].body,
			                 .body_n = strlen(rows[i].body) };
		ck_assert_int_eq(kube_status_error(&target, &r, &err), -1);
		ck_assert_msg(err.code == rows[i].code, "%s: %s", rows[i].what,
		              err_code_name(err.code));
		ck_assert_msg(strstr(err.msg, rows[i].text) != NULL, "%s: %s", rows[i].what,
		              err.msg);
	}
}
END_TEST

START_TEST(of_what_is_in_no_namespace_a_cluster_role_is_missing)
{
	static const struct kube_target everywhere = { .verb = "list", .kind = &volume };
	static const char body[] = S("\"message\":\"no\"");
	struct http_result r = {
		.end = HTTP_ANSWERED, .status = 403, .body = (char *)body, .body_n = strlen(body)
	};
	struct err err = ERR_INIT;

	ck_assert_int_eq(kube_status_error(&everywhere, &r, &err), -1);
	ck_assert_str_eq(err.msg,
	                 "not allowed to list dpuvolumes (API group storage.dpu.nvidia.com): "
	                 "no; check the ClusterRole of the driver's ServiceAccount");
}
END_TEST

START_TEST(texts_about_one_object_leave_its_name_to_the_caller)
{
	static const struct {
		struct kube_target target;
		const char *text;
	} rows[] = {
		{ { .verb = "get", .ns = "ns", .name = "a" }, "dpuvolumes.storage.dpu.nvidia.com" },
		{ { .verb = "delete", .ns = "ns", .name = "a" },
		  "dpuvolumes.storage.dpu.nvidia.com" },
		{ { .verb = "create", .ns = "ns" }, "dpuvolumes.storage.dpu.nvidia.com" },
		{ { .verb = "list", .ns = "ns" }, "dpuvolumes.storage.dpu.nvidia.com ns" },
		{ { .verb = "list" }, "dpuvolumes.storage.dpu.nvidia.com" },
		{ { .ns = "ns", .name = "a" }, "dpuvolumes.storage.dpu.nvidia.com ns/a" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_target t = rows[i].target;
		char buf[512];
		t.kind = &volume;
		ck_assert_str_eq(kube_target_text(&t, buf), rows[i].text);
	}
}
END_TEST

START_TEST(no_answer_becomes_a_code_and_a_text)
{
	static const struct {
		enum http_end end;
		enum err_code code;
		const char *text;
		bool sent;
	} rows[] = {
		{ HTTP_NOT_SENT, ERR_UNAVAILABLE,
		  "cannot reach the API server https://10.0.0.1: why", false },
		{ HTTP_CUT, ERR_UNAVAILABLE, "incomplete answer from https://10.0.0.1: why",
		  false },
		{ HTTP_TOO_LARGE, ERR_UNAVAILABLE, "why", false },
		{ HTTP_RETIRED, ERR_UNAVAILABLE, "why", false },
		{ HTTP_DEADLINE, ERR_DEADLINE, "no answer from https://10.0.0.1 in time", true },
		{ HTTP_DEADLINE, ERR_DEADLINE, "not sent to https://10.0.0.1 in time: why", false },
		{ HTTP_CANCELLED, ERR_CANCELLED, "cancelled", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		struct http_result r = { .end = rows[i].end, .why = "why", .sent = rows[i].sent };
		ck_assert_int_eq(kube_status_error(&target, &r, &err), -1);
		ck_assert_int_eq(err.code, rows[i].code);
		ck_assert_msg(strstr(err.msg, rows[i].text) != NULL, "%s", err.msg);
	}
}
END_TEST

START_TEST(a_missing_object_is_told_from_a_missing_kind_and_namespace)
{
	static const struct {
		const char *what, *body;
		bool object;
	} rows[] = {
		{ "object",
		  S("\"reason\":\"NotFound\",\"details\":{\"name\":\"a\",\"kind\":\"dpuvolumes\"}"),
		  true },
		{ "another object",
		  S("\"reason\":\"NotFound\",\"details\":{\"name\":\"b\",\"kind\":\"dpuvolumes\"}"),
		  false },
		{ "another kind",
		  S("\"reason\":\"NotFound\",\"details\":{\"name\":\"a\",\"kind\":\"secrets\"}"),
		  false },
		{ "no details", S("\"reason\":\"NotFound\""), false },
		{ "path", "404 page not found", false },
		{ "a page", "<html>a not found</html>", false },
		{ "namespace", S("\"reason\":\"NotFound\",\"details\":{\"kind\":\"namespaces\"}"),
		  false },
		{ "JSON that is no Status", "{}", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_result r = { .end = HTTP_ANSWERED,
			                 .status = 404,
			                 .body = (char *)rows[i].body,
			                 .body_n = strlen(rows[i].body) };
		ck_assert_msg(kube_status_no_object(&target, &r) == rows[i].object, "%s",
		              rows[i].what);
	}
}
END_TEST

START_TEST(only_the_servers_own_refusal_proves_that_nothing_was_done)
{
	static const struct {
		const char *what, *body;
		struct http_result r;
		bool proof;
	} rows[] = {
		{ "not sent", "", { .end = HTTP_NOT_SENT }, true },
		{ "no time to send it", "", { .end = HTTP_DEADLINE }, true },
		{ "no answer in time", "", { .end = HTTP_DEADLINE, .sent = true }, false },
		{ "cut", "", { .end = HTTP_CUT, .sent = true }, false },
		{ "forbidden", S("\"message\":\"no\""), { .status = 403 }, true },
		{ "forbidden by a proxy", "<html>", { .status = 403 }, false },
		{ "invalid", S("\"message\":\"no\""), { .status = 422 }, true },
		{ "too many", "Too many requests", { .status = 429 }, true },
		{ "not served", "404 page not found\n", { .status = 404 }, true },
		{ "not found by a proxy", "404 not found\n", { .status = 404 }, false },
		{ "internal", S("\"message\":\"etcd\""), { .status = 500 }, false },
		{ "unavailable", S("\"message\":\"etcd\""), { .status = 503 }, false },
		{ "success that was not understood", "{}", { .status = 200 }, false },
		{ "moved", "", { .status = 302 }, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_result r = rows[i].r;
		r.body = (char *)rows[i].body;
		r.body_n = strlen(rows[i].body);
		ck_assert_msg(kube_status_is_refusal(&r) == rows[i].proof, "%s", rows[i].what);
	}
}
END_TEST

START_TEST(what_a_starting_server_refuses_may_be_a_mistake)
{
	static const struct {
		const char *what, *body;
		int status;
		bool mistaken;
	} rows[] = {
		{ "forbidden", S("\"message\":\"no\""), 403, true },
		{ "forbidden by a proxy", "<html>", 403, true },
		{ "unauthenticated", S("\"message\":\"no\""), 401, true },
		{ "not served", "404 page not found\n", 404, true },
		{ "no such object", S("\"reason\":\"NotFound\""), 404, false },
		{ "quota", S("\"message\":\"exceeded quota: q\""), 403, false },
		{ "namespace going away",
		  S("\"details\":{\"causes\":[{\"reason\":\"NamespaceTerminating\"}]}"), 403,
		  false },
		{ "invalid", S("\"message\":\"no\""), 422, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_result r = { .status = rows[i].status,
			                 .body = (char *)rows[i].body,
			                 .body_n = strlen(rows[i].body) };
		ck_assert_msg(kube_status_may_be_mistaken(&r) == rows[i].mistaken, "%s",
		              rows[i].what);
	}
}
END_TEST

SUITE("kube_status", only_the_servers_own_refusal_proves_that_nothing_was_done,
      what_a_starting_server_refuses_may_be_a_mistake, an_answer_becomes_a_code_and_a_text,
      of_what_is_in_no_namespace_a_cluster_role_is_missing,
      texts_about_one_object_leave_its_name_to_the_caller, no_answer_becomes_a_code_and_a_text,
      a_missing_object_is_told_from_a_missing_kind_and_namespace);
