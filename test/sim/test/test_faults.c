/* SPDX-License-Identifier: Apache-2.0 */
/* Which faults are accepted, which requests they match, and their effects. */
#include <string.h>

#include "common/deadline.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/test/harness.h"

static void add(struct sim_world *w, const char *fault)
{
	world_ok(w, "POST", "/sim/faults", fault, 200);
}

static void create(struct sim_world *w, const char *name, unsigned code)
{
	char *body AUTO(free) = volume_json_text(name, "p");

	world_ok(w, "POST", VOLUMES, body, code);
}

START_TEST(mistakes_are_named)
{
	static const struct {
		const char *fault, *text;
	} rows[] = {
		{ "x", "not" },
		{ "1", "an object or a list" },
		{ "{\"stauts\":500}", "\\\"stauts\\\" is no member; known are verb" },
		{ "{\"status\":200}", "status 200 is no failure" },
		{ "{\"status\":100,\"body\":\"x\"}", "status 100 is no failure" },
		{ "{\"event\":\"sideways\"}", "event \\\"sideways\\\" is unknown" },
		{ "{\"status\":\"500\"}", "status" },
		{ "{\"name\":\"(\"}", "is no regular expression" },
		{ "{\"latencyMs\":-1}", "latencyMs is out of range" },
		{ "{\"hang\":1}", "hang" },
		{ "{\"dpf\":\"volume-fails\"}", "known are volume-never-bound" },
		{ "{\"dpf\":\"missing\",\"times\":1}", "last until they are deleted" },
		{ "[{\"status\":500},{\"status\":1}]", "status 1 is no failure" },
	};
	PLAIN(w);
	struct api_answer list AUTO(answer_clear) = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct api_answer a AUTO(answer_clear) =
			world_call(&w, "POST", "/sim/faults", rows[i].fault);

		ck_assert_msg(a.code == 400, "%s: %u", rows[i].fault, a.code);
		ck_assert_msg(strstr(a.text, rows[i].text), "%s: %s", rows[i].fault, a.text);
	}
	list = world_call(&w, "GET", "/sim/faults", NULL);
	ck_assert_str_eq(list.text, "[]");
}
END_TEST

START_TEST(a_fault_meets_the_requests_that_it_names)
{
	static const struct {
		const char *fault;
		unsigned create_a, create_b, get_a;
	} rows[] = {
		{ "{\"status\":500}", 500, 500, 500 },
		{ "{\"verb\":\"create\",\"status\":503}", 503, 503, 404 },
		{ "{\"verb\":\"get\",\"status\":403}", 201, 201, 403 },
		{ "{\"resource\":\"nodes\",\"status\":500}", 201, 201, 200 },
		{ "{\"verb\":\"create\",\"name\":\"^b$\",\"status\":409}", 201, 409, 200 },
		{ "{\"verb\":\"create\",\"times\":1,\"status\":500}", 500, 201, 404 },
		{ "{\"verb\":\"create\",\"status\":500,\"applied\":true}", 500, 500, 200 },
		{ "{\"resource\":\"dpuvolumes\",\"unserved\":true}", 404, 404, 404 },
		{ "{\"verb\":\"create\",\"status\":302,\"body\":\"x\"}", 302, 302, 404 },
		{ "{\"verb\":\"create\",\"body\":\"x\",\"applied\":true}", 200, 200, 200 },
		{ "[{\"verb\":\"get\",\"status\":401},{\"status\":429}]", 429, 429, 401 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		PLAIN(w);

		add(&w, rows[i].fault);
		create(&w, "a", rows[i].create_a);
		create(&w, "b", rows[i].create_b);
		world_ok(&w, "GET", VOLUMES "/a", NULL, rows[i].get_a);
	}
}
END_TEST

START_TEST(the_failure_looks_as_it_was_asked_to)
{
	PLAIN(w);
	struct api_answer b AUTO(answer_clear) = { 0 };
	struct api_answer a AUTO(answer_clear) = { 0 };

	add(&w, "{\"status\":429,\"retryAfterSeconds\":3,\"message\":\"slow down\"}");
	a = world_call(&w, "GET", VOLUMES "/a", NULL);
	ck_assert_uint_eq(a.code, 429);
	ck_assert_uint_eq(a.reply.retry_after, 3);
	ck_assert_str_eq(json_str(a.json, "reason"), "TooManyRequests");
	ck_assert_str_eq(json_str(a.json, "message"), "slow down");
	world_ok(&w, "DELETE", "/sim/faults", NULL, 200);
	add(&w, "{\"status\":403,\"reason\":\"Forbidden\",\"message\":\"exceeded quota\"}");
	b = world_call(&w, "GET", VOLUMES "/a", NULL);
	ck_assert_str_eq(json_str(b.json, "message"), "exceeded quota");
}
END_TEST

START_TEST(an_answer_can_be_wrong)
{
	PLAIN(w);
	struct api_answer a AUTO(answer_clear) = { 0 }, b AUTO(answer_clear) = { 0 },
			    c AUTO(answer_clear) = { 0 };

	create(&w, "a", 201);
	add(&w, "{\"wrong\":\"metadata.uid\",\"times\":1}");
	add(&w, "{\"wrong\":\"kind\",\"times\":1}");
	add(&w, "{\"body\":\"<html>\",\"times\":1}");
	a = world_call(&w, "GET", VOLUMES "/a", NULL);
	ck_assert_str_eq(json_str(a.json, "metadata.uid"), "another");
	ck_assert_str_eq(json_str(a.json, "metadata.name"), "a");
	b = world_call(&w, "GET", VOLUMES "/a", NULL);
	ck_assert_str_eq(json_str(b.json, "kind"), "another");
	c = world_call(&w, "GET", VOLUMES "/a", NULL);
	ck_assert_uint_eq(c.code, 200);
	ck_assert_str_eq(c.text, "<html>");
}
END_TEST

START_TEST(latency_and_cuts_are_applied)
{
	PLAIN(w);
	int64_t before;
	struct api_answer a AUTO(answer_clear) = { 0 };

	create(&w, "a", 201);
	add(&w, "{\"verb\":\"get\",\"latencyMs\":80,\"times\":1}");
	add(&w, "{\"verb\":\"get\",\"cut\":true}");
	before = monotonic_ns();
	world_ok(&w, "GET", VOLUMES "/a", NULL, 200);
	ck_assert_int_ge(monotonic_ns() - before, 80 * 1000000);
	a = world_call(&w, "GET", VOLUMES "/a", NULL);
	ck_assert(a.reply.cut);
	ck_assert_ptr_nonnull(a.text);
}
END_TEST

START_TEST(faults_are_listed_and_removed_one_by_one)
{
	PLAIN(w);
	struct api_answer list AUTO(answer_clear) = { 0 };
	struct err err = ERR_INIT;
	int64_t n = 0;

	add(&w, "[{\"status\":500,\"verb\":\"get\"},{\"status\":503,\"verb\":\"create\"}]");
	create(&w, "a", 503);
	list = world_call(&w, "GET", "/sim/faults", NULL);
	ck_assert_uint_eq(json_count(list.json), 2);
	ck_assert_int_eq(json_get_i64(list.json, "1.applications", &n, &err), 0);
	ck_assert_int_eq(n, 1);
	world_ok(&w, "DELETE", "/sim/faults?id=2", NULL, 200);
	create(&w, "a", 201);
	world_ok(&w, "GET", VOLUMES "/a", NULL, 500);
	world_ok(&w, "DELETE", "/sim/faults?id=2", NULL, 404);
	world_ok(&w, "DELETE", "/sim/faults", NULL, 200);
	world_ok(&w, "GET", VOLUMES "/a", NULL, 200);
}
END_TEST

SUITE("sim faults", mistakes_are_named, a_fault_meets_the_requests_that_it_names,
      an_answer_can_be_wrong, the_failure_looks_as_it_was_asked_to, latency_and_cuts_are_applied,
      faults_are_listed_and_removed_one_by_one);
