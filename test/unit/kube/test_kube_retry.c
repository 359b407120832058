/* SPDX-License-Identifier: Apache-2.0 */
/* Which results are retried, and after which pause. */
#include "kube/kube_retry.h"

#include <limits.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"

START_TEST(a_request_is_repeated_where_that_is_safe)
{
	static const struct {
		const char *what;
		struct http_result result;
		bool get, post;
	} rows[] = {
		{ "no connection", { .end = HTTP_NOT_SENT }, true, true },
		{ "cut", { .end = HTTP_CUT, .sent = true }, true, false },
		{ "no answer", { .end = HTTP_DEADLINE, .sent = true }, true, false },
		{ "no answer, still in the queue", { .end = HTTP_DEADLINE }, true, true },
		{ "cancelled", { .end = HTTP_CANCELLED }, false, false },
		{ "too large", { .end = HTTP_TOO_LARGE, .sent = true }, false, false },
		{ "429", { .status = 429 }, true, true },
		{ "503", { .status = 503 }, true, true },
		{ "500", { .status = 500 }, true, false },
		{ "502", { .status = 502 }, true, false },
		{ "504", { .status = 504 }, true, false },
		{ "501", { .status = 501 }, false, false },
		{ "200", { .status = 200 }, false, false },
		{ "401", { .status = 401 }, false, false },
		{ "403", { .status = 403 }, false, false },
		{ "404", { .status = 404 }, false, false },
		{ "409", { .status = 409 }, false, false },
		{ "422", { .status = 422 }, false, false },
	};
	static const char *const safe[] = { "GET", "DELETE", "PATCH" };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t m = 0; m < ARRAY_LEN(safe); m++)
			ck_assert_msg((kube_retry_ms(safe[m], &rows[i].result, 1) >= 0) ==
			                      rows[i].get,
			              "%s: %s", safe[m], rows[i].what);
		ck_assert_msg((kube_retry_ms("POST", &rows[i].result, 1) >= 0) == rows[i].post,
		              "POST: %s", rows[i].what);
	}
}
END_TEST

START_TEST(pauses_double_with_jitter_and_end)
{
	struct http_result r = { .end = HTTP_NOT_SENT };
	static const int least[] = { 75, 150, 300, 600, 1200 };
	bool differ = false;
	for (unsigned n = 1; n <= ARRAY_LEN(least); n++)
		for (int i = 0; i < 50; i++) {
			int ms = kube_retry_ms("GET", &r, n);
			differ |= ms != kube_retry_ms("GET", &r, n);
			ck_assert_int_ge(ms, least[n - 1]);
			ck_assert_int_le(ms, least[n - 1] * 5 / 3 + 1);
		}
	ck_assert(differ);
	ck_assert_int_eq(kube_retry_ms("GET", &r, 6), -1);
	r = (struct http_result) { .status = 429, .retry_after_s = 3 };
	ck_assert_int_ge(kube_retry_ms("GET", &r, 6), 3000);
	ck_assert_int_eq(kube_retry_ms("GET", &r, 10), -1);
	ck_assert_int_le(kube_backoff_ms(1000, 100, 5000), 6250);
}
END_TEST

/* Even for values that no real server sends: the pause is at most half a minute plus its jitter. */
START_TEST(a_pause_that_the_server_asks_for_is_bounded_and_spread)
{
	static const struct {
		int asked_s, least_ms, most_ms;
	} rows[] = {
		{ INT_MIN, 75, 125 },   { -2246400, 75, 125 },     { -1, 75, 125 },
		{ 0, 75, 125 },         { 1, 1075, 1375 },         { 30, 30075, 37625 },
		{ 3600, 30075, 37625 }, { 2246400, 30075, 37625 }, { INT_MAX, 30075, 37625 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_result r = { .status = 429, .retry_after_s = rows[i].asked_s };
		int least = INT_MAX, most = 0;
		for (int n = 0; n < 200; n++) {
			int ms = kube_retry_ms("POST", &r, 1);
			least = ms < least ? ms : least;
			most = ms > most ? ms : most;
		}
		ck_assert_msg(least >= rows[i].least_ms && most <= rows[i].most_ms,
		              "%d s: %d to %d ms", rows[i].asked_s, least, most);
		ck_assert_msg(most - least > (rows[i].most_ms - rows[i].least_ms) / 2,
		              "%d s: callers come back together: %d to %d ms", rows[i].asked_s,
		              least, most);
	}
}
END_TEST

SUITE("kube_retry", a_request_is_repeated_where_that_is_safe, pauses_double_with_jitter_and_end,
      a_pause_that_the_server_asks_for_is_bounded_and_spread);
