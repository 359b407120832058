/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are accepted, and the status for the others. */
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "web/web_request.h"

#define HOST "Host: x\r\n\r\n"

static const struct {
	const char *what, *text;
	int rc;
	const char *path;
	bool head;
} rows[] = {
	{ "as Prometheus asks", "GET /metrics HTTP/1.1\r\nAccept: */*\r\n" HOST, 0, "/metrics",
	  false },
	{ "HEAD", "HEAD /metrics HTTP/1.1\r\n" HOST, 0, "/metrics", true },
	{ "a query is left out", "GET /metrics?a=b?c HTTP/1.1\r\n" HOST, 0, "/metrics", false },
	{ "HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", 0, "/", false },
	{ "a header that is not read", "GET / HTTP/1.1\r\nConnection: upgrade , close\r\n" HOST, 0,
	  "/", false },
	{ "a length of 0 is no body", "GET / HTTP/1.1\r\nContent-Length: 0\r\n" HOST, 0, "/",
	  false },
	{ "no white space in a header, nor behind it", "GET / HTTP/1.1\r\nHost:x\r\n\r\n", 0, "/",
	  false },
	{ "nothing yet", "", WEB_MORE, NULL, false },
	{ "half a line", "GET /met", WEB_MORE, NULL, false },
	{ "no end yet", "GET / HTTP/1.1\r\nHost: x\r\n", WEB_MORE, NULL, false },
	{ "half an end", "GET / HTTP/1.1\r\nHost: x\r\n\r", WEB_MORE, NULL, false },
	{ "another method", "POST / HTTP/1.1\r\n" HOST, 405, NULL, false },
	{ "methods are upper case", "get / HTTP/1.1\r\n" HOST, 405, NULL, false },
	{ "HTTP/2 without its preface", "GET / HTTP/2.0\r\n" HOST, 505, NULL, false },
	{ "the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, NULL, false },
	{ "HTTP/1.2", "GET / HTTP/1.2\r\n" HOST, 505, NULL, false },
	{ "no version", "GET /\r\n\r\n", 400, NULL, false },
	{ "another URL than a path", "GET http://x/ HTTP/1.1\r\n" HOST, 400, NULL, false },
	{ "two spaces", "GET  / HTTP/1.1\r\n" HOST, 400, NULL, false },
	{ "TLS", "\x16\x03\x01\x02", 400, NULL, false },
	{ "lines without CR", "GET / HTTP/1.1\nHost: x\n\n", 400, NULL, false },
	{ "CR alone", "GET / HTTP/1.1\rHost: x\r\n\r\n", 400, NULL, false },
	{ "a header without a colon", "GET / HTTP/1.1\r\nHost\r\n\r\n", 400, NULL, false },
	{ "white space before the colon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, NULL, false },
	{ "a folded line", "GET / HTTP/1.1\r\nHost: x\r\n y: z\r\n\r\n", 400, NULL, false },
	{ "a body", "GET / HTTP/1.1\r\nContent-Length: 3\r\n" HOST "abc", 400, NULL, false },
	{ "a body in chunks", "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HOST, 501, NULL,
	  false },
	{ "an empty line first", "\r\nGET / HTTP/1.1\r\n" HOST, 400, NULL, false },
};

START_TEST(a_request_is_read_or_has_a_status)
{
	size_t used = 0, n = strlen(rows[_i].text);
	/* without a NUL: a read beyond the end is detected */
	char *bytes AUTO(free) = xmalloc(n + 1);
	char *text = memcpy(bytes + 1, rows[_i].text, n);
	struct web_request q;
	int rc = web_request_parse(text, n, &q, &used);

	ck_assert_msg(rc == rows[_i].rc, "%s: %d", rows[_i].what, rc);
	if (rc)
		return;
	ck_assert_msg(q.path_n == strlen(rows[_i].path) &&
	                      memcmp(q.path, rows[_i].path, q.path_n) == 0,
	              "%s: path %.*s", rows[_i].what, (int)q.path_n, q.path);
	ck_assert_msg(q.head == rows[_i].head, "%s", rows[_i].what);
	ck_assert_uint_eq(used, strlen(rows[_i].text));
}
END_TEST

START_TEST(what_comes_behind_a_request_is_left)
{
	static const char two[] = "GET /a HTTP/1.1\r\n" HOST "GET /b HTTP/1.1\r\n" HOST;
	struct web_request q;
	size_t used = 0;

	ck_assert_int_eq(web_request_parse(two, strlen(two), &q, &used), 0);
	ck_assert_uint_eq(used, strlen(two) / 2);
	ck_assert(memcmp(q.path, "/a", q.path_n) == 0);
}
END_TEST

START_TEST(a_NUL_is_no_text)
{
	static const char text[] = "GET /\0 HTTP/1.1\r\n" HOST;
	struct web_request q;
	size_t used = 0;

	ck_assert_int_eq(web_request_parse(text, sizeof(text) - 1, &q, &used), 400);
}
END_TEST

SUITE("web_request", LOOP(a_request_is_read_or_has_a_status, ARRAY_LEN(rows)),
      what_comes_behind_a_request_is_left, a_NUL_is_no_text);
