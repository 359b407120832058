/* SPDX-License-Identifier: Apache-2.0 */
/* Names stored in clusters, and words that select a code. */
#include "controller/names.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "controller/controller.h"
#include "test/lib/suite.h"

static char *repeat(const char *prefix, char c, size_t n)
{
	size_t before = strlen(prefix);
	char *s = malloc(before + n + 1);

	memcpy(s, prefix, before);
	memset(s + before, c, n);
	s[before + n] = 0;
	return s;
}

START_TEST(a_name_that_kubernetes_takes_is_the_volume_id)
{
	static const struct {
		const char *name, *id;
	} rows[] = {
		{ "pvc-0a1b2c3d", "pvc-0a1b2c3d" },
		{ "a.b-c", "a.b-c" },
		{ "a", "a" },
		/* 128-bit FNV-1, computed by another implementation. */
		{ "PVC-1", "v-f1fd65373483d94f708038b03ccabf98" },
		{ "a_b", "v-a68bb2a4618b5822836dbc78c6af1ed5" },
		{ "-a", "v-0880945b22ab1be95aa0733055270087" },
	};
	char id[OBJECT_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		volume_object_name(rows[i].name, id);
		ROW_STR_EQ(rows[i].name, id, rows[i].id);
	}
}
END_TEST

START_TEST(an_attachment_is_node_and_volume_or_their_hash)
{
	char *long_node AUTO(free) = repeat("", 'n', 200);
	char *long_volume AUTO(free) = repeat("pvc-", 'a', 60);
	char *just AUTO(free) = repeat("", 'v', 52);
	char name[OBJECT_NAME_MAX + 1];

	ck_assert(attachment_object_name("dpu-node", "volume-name", name));
	ck_assert_str_eq(name, "dpu-node-volume-name");
	ck_assert(attachment_object_name(long_node, long_volume, name));
	ck_assert_str_eq(name, "va-0244e6d3b81bd7cffdd745e9815e94bf");
	/* 200 + 1 + 52 = 253 is the longest that is joined. */
	ck_assert(attachment_object_name(long_node, just, name));
	ck_assert_uint_eq(strlen(name), 253);
	ck_assert(!attachment_object_name("Node", "v", name));
	ck_assert(!attachment_object_name("n", "V_1", name));
}
END_TEST

START_TEST(a_label_is_the_name_or_its_hash)
{
	char *just AUTO(free) = repeat("pvc-", 'a', 59);
	char *longer AUTO(free) = repeat("pvc-", 'a', 60);
	const struct {
		const char *name, *value;
	} rows[] = {
		{ "pvc-0a1b2c3d", "pvc-0a1b2c3d" },
		{ "worker-1.example.com", "worker-1.example.com" },
		{ just, just },
		{ longer, "h-25a4132995e6ea711eafe28bc63ba5df" },
		{ "PVC-1", "h-f1fd65373483d94f708038b03ccabf98" },
		{ "-a", "h-0880945b22ab1be95aa0733055270087" },
		{ "a,b", "h-a68bb2a4728b5822836dbc78c6af33c0" },
		{ "", "h-6c62272e07bb014262b821756295c58d" },
	};
	char value[LABEL_VALUE_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		label_value(rows[i].name, value);
		ROW_STR_EQ(rows[i].name, value, rows[i].value);
	}
}
END_TEST

START_TEST(words_of_exhaustion_are_whole_words)
{
	static const struct {
		const char *text;
		bool exhausted;
	} rows[] = {
		{ "vendor full", true },
		{ "Pool p1 is FULL.", true },
		{ "the daemon's request queue is full", false },
		{ "storage pool: limit reached", true },
		{ "rate limit reached", false },
		{ "insufficient capacity", true },
		{ "exceeded quota: x", true },
		{ "vendor v1 has no capacity left", true },
		{ "rpc error: code = ResourceExhausted desc = pool p1", true },
		{ "rpc error: code = Internal desc = quota exceeded, said the log", false },
		{ "rpc error: code = ResourceExhaustedToday desc = x", false },
		{ "no space left on user-space daemon", false },
		{ "write /var/log/snap.log: no space left on device", false },
		{ "the user-space is full-size", false },
		{ "capacity of the volume is not known", false },
		{ "insufficient permissions", false },
		{ "cannot read the quota", false },
		{ "full name is missing", false },
		{ "DPUAttach not ready: no free function: all 4 of kind vf are in use", true },
		{ "could not be fully configured", false },
		{ "unsuccessful", false },
		{ "namespace not found", false },
		{ "connection refused", false },
		{ "", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(speaks_of_exhaustion(rows[i].text) == rows[i].exhausted, "%s",
		              rows[i].text);
}
END_TEST

START_TEST(a_wait_ends_before_its_caller_does)
{
	static const struct {
		int64_t caller_ms;
		int low, high;
	} rows[] = {
		{ 120000, 109000, 110000 }, /* --wait-timeout */
		{ 60000, 56500, 57000 },    /* 5 % */
		{ 10000, 8900, 9000 },      /* 1 s */
		{ 1000, 400, 500 },         /* half of the existing number */
	};
	struct controller c = { .namespace = "n" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int left = deadline_left_ms(
			controller_deadline(&c, deadline_in_ms(rows[i].caller_ms)));

		ck_assert_msg(left >= rows[i].low && left <= rows[i].high, "%lld ms: %d",
		              (long long)rows[i].caller_ms, left);
	}
	c.wait_timeout_ms = 2000;
	ck_assert_int_le(deadline_left_ms(controller_deadline(&c, deadline_never())), 2000);
}
END_TEST

SUITE("names", a_name_that_kubernetes_takes_is_the_volume_id,
      an_attachment_is_node_and_volume_or_their_hash, a_label_is_the_name_or_its_hash,
      words_of_exhaustion_are_whole_words, a_wait_ends_before_its_caller_does);
