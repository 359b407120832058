/* SPDX-License-Identifier: Apache-2.0 */
/* The account of a connection: actions of correct clients are free, others are limited. */
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "rpc/h2_guard.h"
#include "test/lib/suite.h"

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, WINDOW_UPDATE = 8 };
enum { CONTINUATION = 9, UNKNOWN = 77 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8 };

#define SECOND INT64_C(1000000000)

/* A connection, and why the guard wants to close it. */
struct talk {
	struct h2_guard guard;
	size_t unfinished; /* of all connections */
	int64_t now;
	const char *reason;
};

static size_t put(uint8_t *to, uint8_t type, uint8_t flags, uint32_t stream, size_t n, uint8_t fill)
{
	const uint8_t head[9] = {
		(uint8_t)(n >> 16),      (uint8_t)(n >> 8),      (uint8_t)n,     type, flags, 0,
		(uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream
	};

	memcpy(to, head, sizeof(head));
	memset(to + sizeof(head), fill, n);
	return sizeof(head) + n;
}

static void say(struct talk *t, uint8_t type, uint8_t flags, uint32_t stream, size_t n)
{
	uint8_t *bytes AUTO(free) = xmalloc(9 + n);

	if (!t->reason)
		t->reason = h2_guard_client(&t->guard, bytes, put(bytes, type, flags, stream, n, 0),
		                            t->now);
}

static void answer(struct talk *t, uint8_t type, uint8_t flags, uint32_t stream, size_t n)
{
	uint8_t *bytes AUTO(free) = xmalloc(9 + n);

	h2_guard_server(&t->guard, bytes, put(bytes, type, flags, stream, n, 0), t->now);
}

static void talk_init(struct talk *t)
{
	*t = (struct talk) { .now = 5 * SECOND };
	h2_guard_init(&t->guard, &t->unfinished, t->now);
}

/* Like grpc-go: a PING and WINDOW_UPDATEs for each answer. */
static void call(struct talk *t, uint32_t stream)
{
	say(t, HEADERS, END_HEADERS, stream, 200);
	say(t, DATA, END_STREAM, stream, 105);
	answer(t, HEADERS, END_HEADERS, stream, 30);
	answer(t, DATA, 0, stream, 20);
	say(t, WINDOW_UPDATE, 0, 0, 4);
	say(t, WINDOW_UPDATE, 0, stream, 4);
	say(t, PING, 0, 0, 8);
	answer(t, HEADERS, END_HEADERS | END_STREAM, stream, 20);
}

START_TEST(calls_cost_nothing_however_fast_they_come)
{
	struct talk t;

	talk_init(&t);
	for (uint32_t i = 0; i < 200000; i++)
		call(&t, 2 * i + 1);
	ck_assert_msg(!t.reason, "%s", t.reason);
	ck_assert_uint_eq(t.guard.n_streams, 0);
	h2_guard_clear(&t.guard);
}
END_TEST

START_TEST(a_large_message_costs_nothing)
{
	struct talk t;

	talk_init(&t);
	for (uint32_t call_no = 0; call_no < 500; call_no++) {
		say(&t, HEADERS, END_HEADERS, 2 * call_no + 1, 200);
		for (int i = 0; i < 64; i++)
			say(&t, DATA, 0, 2 * call_no + 1, 16384);
		say(&t, DATA, END_STREAM, 2 * call_no + 1, 0);
		ck_assert_uint_eq(t.unfinished, 0);
		answer(&t, HEADERS, END_HEADERS | END_STREAM, 2 * call_no + 1, 20);
	}
	ck_assert_msg(!t.reason, "%s", t.reason);
	h2_guard_clear(&t.guard);
}
END_TEST

START_TEST(as_many_calls_as_may_be_open_wait_and_are_given_up_at_once)
{
	struct talk t;

	talk_init(&t);
	for (uint32_t i = 0; i < LIMIT_RPC_STREAMS; i++) {
		say(&t, HEADERS, END_HEADERS, 2 * i + 1, 200);
		say(&t, DATA, END_STREAM, 2 * i + 1, 105);
	}
	/* Like gRPC's own client, for each. */
	for (uint32_t i = 0; i < LIMIT_RPC_STREAMS; i++)
		say(&t, WINDOW_UPDATE, 0, 2 * i + 1, 4);
	for (uint32_t i = 0; i < LIMIT_RPC_STREAMS; i++)
		say(&t, RST_STREAM, 0, 2 * i + 1, 4);
	ck_assert_msg(!t.reason, "%s", t.reason);
	ck_assert_uint_eq(t.guard.n_streams, 0);
	h2_guard_clear(&t.guard);
}
END_TEST

/*
 * A deadline passes at both ends at once: the client resets a call that the server has just ended.
 */
START_TEST(calls_that_both_ends_end_at_once_cost_nothing)
{
	for (int by_reset = 0; by_reset < 2; by_reset++) {
		struct talk t;

		talk_init(&t);
		for (uint32_t i = 0; i < 2000; i++) {
			say(&t, HEADERS, END_HEADERS, 2 * i + 1, 200);
			say(&t, DATA, END_STREAM, 2 * i + 1, 105);
		}
		for (uint32_t i = 0; i < 2000; i++)
			answer(&t, by_reset ? RST_STREAM : HEADERS, by_reset ? 0 : END_STREAM,
			       2 * i + 1, 4);
		for (uint32_t i = 0; i < 2000; i++)
			say(&t, RST_STREAM, 0, 2 * i + 1, 4);
		ck_assert_msg(!t.reason, "%s", t.reason);
		h2_guard_clear(&t.guard);
	}
}
END_TEST

START_TEST(calls_that_have_ended_pay_for_one_reset_each)
{
	struct talk t;
	int n = 0;

	talk_init(&t);
	for (uint32_t i = 0; i < 10; i++) {
		say(&t, HEADERS, END_HEADERS, 2 * i + 1, 200);
		answer(&t, HEADERS, END_STREAM, 2 * i + 1, 4);
	}
	for (; !t.reason && n < 10000; n++)
		say(&t, RST_STREAM, 0, 1, 4);
	ck_assert_msg(n == 10 + LIMIT_RPC_BUDGET + 1, "%d passed", n - 1);
	h2_guard_clear(&t.guard);
}
END_TEST

START_TEST(calls_that_a_client_gives_up_are_paid_by_time)
{
	struct talk t;

	talk_init(&t);
	for (uint32_t i = 0; i < 100 * 150 && !t.reason; i++) {
		say(&t, HEADERS, END_HEADERS, 2 * i + 1, 200);
		say(&t, DATA, END_STREAM, 2 * i + 1, 105);
		say(&t, RST_STREAM, 0, 2 * i + 1, 4);
		t.now += SECOND / 150;
	}
	ck_assert_msg(!t.reason, "%s", t.reason);
	h2_guard_clear(&t.guard);
}
END_TEST

START_TEST(who_opens_calls_only_to_give_them_up_has_an_end)
{
	struct talk t;
	uint32_t n = 0;

	talk_init(&t);
	for (; n < 100000 && !t.reason; n++) {
		say(&t, HEADERS, END_HEADERS, 2 * n + 1, 200);
		if (!t.reason)
			say(&t, RST_STREAM, 0, 2 * n + 1, 4);
	}
	ck_assert_uint_eq(n, LIMIT_RPC_STREAMS + 1);
	ck_assert_str_eq(t.reason, "it cancels more calls than it completes");
	h2_guard_clear(&t.guard);
}
END_TEST

static const struct {
	const char *what;
	uint8_t type, flags;
	uint32_t stream; /* of the first one */
	size_t n;
	bool counts_up; /* each has its own stream */
	const char *reason;
	int after; /* frames that pass */
} floods[] = {
	{ "streams", HEADERS, END_HEADERS, 1, 200, true, "it opened more than 2048 streams",
	  LIMIT_RPC_STREAMS },
	{ "PING", PING, 0, 0, 8, false, "the last one is PING", 250 },
	{ "SETTINGS", SETTINGS, 0, 0, 6, false, "the last one is SETTINGS", 1000 },
	{ "WINDOW_UPDATE", WINDOW_UPDATE, 0, 0, 4, false, "the last one is WINDOW_UPDATE", 1000 },
	{ "RST_STREAM of no stream", RST_STREAM, 0, 1, 4, true, "the last one is RST_STREAM",
	  1000 },
	{ "empty DATA", DATA, 0, 1, 0, false, "the last one is DATA", 1000 },
	{ "DATA of no stream", DATA, 0, 1, 16384, false, "the last one is DATA", 1000 },
	{ "a frame of no type", UNKNOWN, 0, 0, 0, false, "of an unknown type", 1000 },
	{ "a header block", CONTINUATION, 0, 1, 16384, false, "a header block of more than 32768",
	  2 },
	{ "an empty header block", CONTINUATION, 0, 1, 0, false, "the last one is CONTINUATION",
	  1000 },
};

START_TEST(a_flood_has_an_end)
{
	struct talk t;
	int n = 0;

	talk_init(&t);
	for (; !t.reason && n < 10000; n++)
		say(&t, floods[_i].type, floods[_i].flags,
		    floods[_i].stream + (floods[_i].counts_up ? 2 * (uint32_t)n : 0U),
		    floods[_i].n);
	ck_assert_msg(t.reason && strstr(t.reason, floods[_i].reason), "%s: %s", floods[_i].what,
	              t.reason ? t.reason : "no end");
	ck_assert_msg(n == floods[_i].after + 1, "%s: %d passed", floods[_i].what, n - 1);
	h2_guard_clear(&t.guard);
}
END_TEST

START_TEST(time_pays)
{
	struct talk t;

	talk_init(&t);
	for (int i = 0; i < 1000; i++) {
		say(&t, WINDOW_UPDATE, 0, 0, 4);
		say(&t, WINDOW_UPDATE, 0, 0, 4);
		t.now += SECOND / 100;
	}
	ck_assert_msg(!t.reason, "%s", t.reason);
	h2_guard_clear(&t.guard);
}
END_TEST

START_TEST(it_does_not_matter_how_the_bytes_are_cut)
{
	struct talk t;
	uint8_t bytes[2000];
	size_t n = 0;

	talk_init(&t);
	n += put(bytes + n, HEADERS, END_HEADERS, 1, 300, 0x11);
	n += put(bytes + n, DATA, END_STREAM, 1, 50, 0);
	n += put(bytes + n, HEADERS, END_HEADERS, 3, 300, 0x11);
	for (size_t i = 0; i < n; i++)
		ck_assert_ptr_null(h2_guard_client(&t.guard, bytes + i, 1, t.now));
	ck_assert_uint_eq(t.guard.n_streams, 2);
	n = put(bytes, HEADERS, END_STREAM, 1, 10, 0);
	for (size_t i = 0; i < n; i++)
		h2_guard_server(&t.guard, bytes + i, 1, t.now);
	ck_assert_uint_eq(t.guard.n_streams, 1);
	h2_guard_clear(&t.guard);
}
END_TEST

static const struct {
	const char *what;
	uint8_t flags, bytes[4];
	size_t n;
	bool refused;
} messages[] = {
	{ "plain", 0, { 0 }, 4, false },
	{ "compressed", 0, { 1 }, 4, false },
	{ "flag 2", 0, { 2 }, 4, true },
	{ "flag 255", 0, { 255 }, 4, true },
	{ "padded, plain", PADDED, { 2, 0 }, 4, false },
	{ "padded, flag 2", PADDED, { 2, 2 }, 4, true },
	{ "nothing", 0, { 2 }, 0, false },
	{ "nothing, padded", PADDED, { 2 }, 1, false },
};

START_TEST(the_first_byte_of_a_message_is_0_or_1)
{
	for (int split = 0; split < 2; split++) {
		struct talk t;
		uint8_t bytes[20];
		size_t n;

		talk_init(&t);
		say(&t, HEADERS, END_HEADERS, 1, 10);
		n = put(bytes, DATA, messages[_i].flags, 1, messages[_i].n, 0);
		memcpy(bytes + 9, messages[_i].bytes, messages[_i].n);
		if (split) {
			for (size_t i = 0; i < n && !t.reason; i++)
				t.reason = h2_guard_client(&t.guard, bytes + i, 1, t.now);
		} else {
			t.reason = h2_guard_client(&t.guard, bytes, n, t.now);
		}
		ck_assert_msg(!t.reason == !messages[_i].refused, "%s: %s", messages[_i].what,
		              t.reason ? t.reason : "taken");
		h2_guard_clear(&t.guard);
	}
}
END_TEST

/* The rest of a message may contain any byte, whatever happens to other streams in between. */
START_TEST(only_the_first_byte_is_looked_at)
{
	struct talk t;
	uint8_t bytes[64];

	talk_init(&t);
	for (uint32_t stream = 1; stream <= 5; stream += 2)
		say(&t, HEADERS, END_HEADERS, stream, 10);
	put(bytes, DATA, 0, 5, 4, 0);
	t.reason = h2_guard_client(&t.guard, bytes, 9, t.now); /* only the header */
	answer(&t, HEADERS, END_STREAM, 1, 3);                 /* another stream makes room */
	t.reason = h2_guard_client(&t.guard, bytes + 9, 4, t.now);
	ck_assert_ptr_null(t.reason);
	put(bytes, DATA, 0, 5, 4, 0xff);
	t.reason = h2_guard_client(&t.guard, bytes, 13, t.now);
	ck_assert_ptr_null(t.reason);
	h2_guard_clear(&t.guard);
}
END_TEST

/* The effect of a frame on the 1,000 received bytes of stream 1's message. */
static const struct {
	const char *what;
	bool of_server;
	uint8_t type, flags;
	uint32_t stream;
	size_t n, left;
} ends[] = {
	{ "more of it", false, DATA, 0, 1, 24, 1024 },
	{ "its last bytes", false, DATA, END_STREAM, 1, 24, 0 },
	{ "an end without bytes", false, DATA, END_STREAM, 1, 0, 0 },
	{ "trailers", false, HEADERS, END_STREAM | END_HEADERS, 1, 10, 0 },
	{ "trailers that go on", false, HEADERS, END_STREAM, 1, 10, 1000 },
	{ "an acknowledgement of SETTINGS", false, SETTINGS, ACK, 0, 0, 1000 },
	{ "the client's RST_STREAM", false, RST_STREAM, 0, 1, 4, 0 },
	{ "the end of another stream", false, DATA, END_STREAM, 3, 24, 1000 },
	{ "DATA of no stream", false, DATA, 0, 5, 24, 1000 },
	{ "the begin of the answer", true, HEADERS, END_HEADERS, 1, 10, 1000 },
	{ "the end of the answer", true, HEADERS, END_HEADERS | END_STREAM, 1, 10, 0 },
	{ "the server's RST_STREAM", true, RST_STREAM, 0, 1, 4, 0 },
};

START_TEST(the_bytes_of_a_message_count_until_it_ends)
{
	struct talk t;

	talk_init(&t);
	say(&t, HEADERS, END_HEADERS, 1, 10);
	say(&t, HEADERS, END_HEADERS, 3, 10);
	say(&t, DATA, 0, 1, 1000);
	ck_assert_uint_eq(t.unfinished, 1000);
	(ends[_i].of_server ? answer : say)(&t, ends[_i].type, ends[_i].flags, ends[_i].stream,
	                                    ends[_i].n);
	ck_assert_msg(t.unfinished == ends[_i].left && t.guard.unfinished == ends[_i].left,
	              "%s: %zu bytes", ends[_i].what, t.unfinished);
	h2_guard_clear(&t.guard);
	ck_assert_uint_eq(t.unfinished, 0);
}
END_TEST

#define PART 16384
#define PARTS (LIMIT_RPC_UNFINISHED / PART)

/* On streams 1, 3, 5 and so on, each without an end. Returns the number of accepted frames. */
static int send_parts(struct talk *t, int n)
{
	int i = 0;

	for (; i < n && !t->reason; i++) {
		uint32_t stream = 2 * ((uint32_t)i / 32) + 1;

		if (i % 32 == 0)
			say(t, HEADERS, END_HEADERS, stream, 10);
		say(t, DATA, 0, stream, PART);
	}
	return t->reason ? i - 1 : i;
}

START_TEST(unfinished_messages_have_an_end)
{
	struct talk t;

	talk_init(&t);
	ck_assert_int_eq(send_parts(&t, 2 * PARTS), PARTS);
	ck_assert_str_eq(t.reason,
	                 "it continues a message while unfinished messages have more than 16 MiB");
	h2_guard_clear(&t.guard);
}
END_TEST

/* One connection has the maximum of unfinished bytes, one byte less or one more. */
START_TEST(only_who_goes_on_with_a_message_is_closed_at_the_limit)
{
	struct talk t;
	struct h2_guard other;
	uint8_t bytes[4096];
	size_t n = put(bytes, HEADERS, END_HEADERS, 1, 200, 0);

	talk_init(&t);
	h2_guard_init(&other, &t.unfinished, t.now);
	ck_assert_int_eq(send_parts(&t, PARTS), PARTS);
	n += put(bytes + n, DATA, END_STREAM, 1, 3000, 0);
	ck_assert_ptr_null(h2_guard_client(&other, bytes, n, t.now)); /* a whole call */
	ck_assert_uint_eq(t.unfinished, LIMIT_RPC_UNFINISHED);
	n = put(bytes, HEADERS, END_HEADERS, 3, 200, 0);
	n += put(bytes + n, DATA, 0, 3, 100, 0);
	ck_assert_ptr_nonnull(h2_guard_client(&other, bytes, n, t.now));
	say(&t, PING, 0, 0, 8); /* above the limit now, but not by its own bytes */
	ck_assert_ptr_null(t.reason);
	h2_guard_clear(&other);
	ck_assert_uint_eq(t.unfinished, LIMIT_RPC_UNFINISHED);
	answer(&t, RST_STREAM, 0, 1, 4);
	say(&t, DATA, 0, 3, PART);
	ck_assert_ptr_null(t.reason);
	h2_guard_clear(&t.guard);
	ck_assert_uint_eq(t.unfinished, 0);
}
END_TEST

/* A sidecar's burst: the first half of each request, then the second half of each. */
START_TEST(a_burst_of_2000_requests_in_two_halves_passes)
{
	struct talk t;

	talk_init(&t);
	for (uint32_t i = 0; i < 2000; i++) {
		say(&t, HEADERS, END_HEADERS, 2 * i + 1, 200);
		say(&t, DATA, 0, 2 * i + 1, 3000);
	}
	ck_assert_uint_eq(t.unfinished, 2000 * 3000);
	for (uint32_t i = 0; i < 2000; i++)
		say(&t, DATA, END_STREAM, 2 * i + 1, 3000);
	ck_assert_msg(!t.reason, "%s", t.reason);
	ck_assert_uint_eq(t.unfinished, 0);
	h2_guard_clear(&t.guard);
}
END_TEST

START_TEST(who_owes_an_acknowledgement_is_known)
{
	struct talk t;

	talk_init(&t);
	ck_assert_int_eq(h2_guard_owes_since(&t.guard), 0);
	answer(&t, SETTINGS, 0, 0, 6);
	ck_assert_int_eq(h2_guard_owes_since(&t.guard), 5 * SECOND);
	say(&t, SETTINGS, 0, 0, 6);
	answer(&t, SETTINGS, ACK, 0, 0);
	ck_assert_int_eq(h2_guard_owes_since(&t.guard), 5 * SECOND);
	say(&t, SETTINGS, ACK, 0, 0);
	ck_assert_int_eq(h2_guard_owes_since(&t.guard), 0);
	h2_guard_clear(&t.guard);
}
END_TEST

SUITE("h2 guard", calls_cost_nothing_however_fast_they_come, a_large_message_costs_nothing,
      as_many_calls_as_may_be_open_wait_and_are_given_up_at_once,
      calls_that_both_ends_end_at_once_cost_nothing, calls_that_have_ended_pay_for_one_reset_each,
      calls_that_a_client_gives_up_are_paid_by_time,
      who_opens_calls_only_to_give_them_up_has_an_end, LOOP(a_flood_has_an_end, ARRAY_LEN(floods)),
      time_pays, it_does_not_matter_how_the_bytes_are_cut,
      LOOP(the_first_byte_of_a_message_is_0_or_1, ARRAY_LEN(messages)),
      only_the_first_byte_is_looked_at,
      LOOP(the_bytes_of_a_message_count_until_it_ends, ARRAY_LEN(ends)),
      unfinished_messages_have_an_end, only_who_goes_on_with_a_message_is_closed_at_the_limit,
      a_burst_of_2000_requests_in_two_halves_passes, who_owes_an_acknowledgement_is_known);
