/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a watch's state machine, cell by cell, and the table of docs/reference/watch.md. */
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "kube/kube_watch_table.h"
#include "test/lib/doc_table.h"
#include "test/lib/suite.h"

static const char *const states[] = {
	[WATCH_IDLE] = "idle",       [WATCH_LISTING] = "listing",
	[WATCH_OPENING] = "opening", [WATCH_STREAMING] = "streaming",
	[WATCH_PAUSED] = "paused",   [WATCH_VERIFYING] = "verifying",
	[WATCH_STAY] = "same",       [WATCH_START] = "start",
};

static const char *const events[WATCH_EVENTS] = {
	[WATCH_ON_DEMAND] = "a new wait or follower, or a caller waits for its object",
	[WATCH_ON_RETRY] = "a caller waits, and the reason of the pause may no longer exist",
	[WATCH_ON_REFUTED] = "an answer to a caller's request contradicts the resume point",
	[WATCH_ON_PAUSE_END] = "the pause ends",
	[WATCH_ON_UNUSED] = "the same, after a permanent error, and no caller waits",
	[WATCH_ON_CANCELLED] = "the client stops",
	[WATCH_ON_PAGE] = "a page that is not the last, or a page that is too large",
	[WATCH_ON_LISTED] = "the list, or its last page",
	[WATCH_ON_VERIFIED] = "the server's version is not lower than the resume point",
	[WATCH_ON_REVERTED] = "the server's version is lower",
	[WATCH_ON_OPENED] = "the answer begins with 2xx",
	[WATCH_ON_FILLED] = "a full stream has delivered all objects",
	[WATCH_ON_NOT_FILLED] = "a full stream is not served (400, 422), or has timed out",
	[WATCH_ON_RETIRED] = "the connection is retired, or no answer arrived in time",
	[WATCH_ON_ENDED] = "the stream ends after HEALTHY_MS, or early for the first time",
	[WATCH_ON_ENDED_EARLY] = "the stream ends early again",
	[WATCH_ON_LOST] = "the resume point has expired (410) or is contradicted",
	[WATCH_ON_LOST_AGAIN] = "the same, without an event since the list after the previous loss",
	[WATCH_ON_LOST_EARLY] = "the same, and the stream ended early again",
	[WATCH_ON_UNUSABLE] = "an unusable line, or an ERROR event other than 410",
	[WATCH_ON_UNAUTHORIZED] = "401, the first since a success",
	[WATCH_ON_MISTAKE] = "401 again, 403, not served: the first since a success",
	[WATCH_ON_UNREACHABLE] = "no answer",
	[WATCH_ON_BUSY] = "429, 5xx, an answer that is not a list",
	[WATCH_ON_PERMANENT] = "any other failure (403 again, no such API group)",
};

static const char *const actions[WATCH_ACTIONS] = {
	"end live",
	"end live after RESUME_TRIES consecutive failures",
	"report the error",
	"cancel the stream",
	"set open",
	"count a failure",
	"record the list",
	"re-read the credentials",
	"repeat after mistake_ms",
	"back off",
	"back off from LONG_MS",
	"begin live",
	"read awaited objects",
};

static const char *const troubles[] = {
	[TROUBLE_NONE] = "",
	[TROUBLE_BUSY] = "; trouble is busy",
	[TROUBLE_UNREACHABLE] = "; trouble is unreachable",
	[TROUBLE_PERMANENT] = "; trouble is permanent",
};

#define FAILURES(state)                                                                       \
	{ state, WATCH_ON_UNAUTHORIZED, WATCH_PAUSED, WATCH_REREAD, TROUBLE_NONE },           \
		{ state, WATCH_ON_MISTAKE, WATCH_PAUSED, WATCH_REPEAT, TROUBLE_NONE },        \
		{ state, WATCH_ON_UNREACHABLE, WATCH_PAUSED, WATCH_GIVE_UP | WATCH_BACKOFF,   \
		  TROUBLE_UNREACHABLE },                                                      \
		{ state, WATCH_ON_BUSY, WATCH_PAUSED, WATCH_GIVE_UP | WATCH_BACKOFF,          \
		  TROUBLE_BUSY },                                                             \
	{                                                                                     \
		state, WATCH_ON_PERMANENT, WATCH_PAUSED,                                      \
			WATCH_END_LIVE | WATCH_REPORT | WATCH_BACKOFF_LONG, TROUBLE_PERMANENT \
	}

/* In the order of states and events. */
static const struct {
	enum watch_state state;
	enum watch_event event;
	enum watch_state next;
	unsigned actions;
	enum watch_trouble trouble;
} cells[] = {
	{ WATCH_IDLE, WATCH_ON_DEMAND, WATCH_START, 0, TROUBLE_NONE },
	{ WATCH_IDLE, WATCH_ON_REFUTED, WATCH_STAY, WATCH_END_LIVE, TROUBLE_NONE },

	{ WATCH_LISTING, WATCH_ON_DEMAND, WATCH_STAY, WATCH_READ, TROUBLE_NONE },
	{ WATCH_LISTING, WATCH_ON_REFUTED, WATCH_STAY, WATCH_END_LIVE, TROUBLE_NONE },
	{ WATCH_LISTING, WATCH_ON_CANCELLED, WATCH_IDLE, 0, TROUBLE_NONE },
	{ WATCH_LISTING, WATCH_ON_PAGE, WATCH_LISTING, 0, TROUBLE_NONE },
	{ WATCH_LISTING, WATCH_ON_LISTED, WATCH_START, WATCH_BEGIN_LIVE | WATCH_READ,
	  TROUBLE_NONE },
	FAILURES(WATCH_LISTING),

	{ WATCH_VERIFYING, WATCH_ON_DEMAND, WATCH_STAY, WATCH_READ, TROUBLE_NONE },
	{ WATCH_VERIFYING, WATCH_ON_REFUTED, WATCH_STAY, WATCH_END_LIVE, TROUBLE_NONE },
	{ WATCH_VERIFYING, WATCH_ON_CANCELLED, WATCH_IDLE, 0, TROUBLE_NONE },
	{ WATCH_VERIFYING, WATCH_ON_VERIFIED, WATCH_START, 0, TROUBLE_NONE },
	{ WATCH_VERIFYING, WATCH_ON_REVERTED, WATCH_START, WATCH_END_LIVE, TROUBLE_NONE },
	FAILURES(WATCH_VERIFYING),

	{ WATCH_OPENING, WATCH_ON_DEMAND, WATCH_STAY, WATCH_READ, TROUBLE_NONE },
	{ WATCH_OPENING, WATCH_ON_REFUTED, WATCH_STAY, WATCH_END_LIVE | WATCH_CANCEL,
	  TROUBLE_NONE },
	{ WATCH_OPENING, WATCH_ON_CANCELLED, WATCH_IDLE, 0, TROUBLE_NONE },
	{ WATCH_OPENING, WATCH_ON_OPENED, WATCH_STREAMING, WATCH_SET_OPEN, TROUBLE_NONE },
	{ WATCH_OPENING, WATCH_ON_NOT_FILLED, WATCH_LISTING, 0, TROUBLE_NONE },
	{ WATCH_OPENING, WATCH_ON_RETIRED, WATCH_START, 0, TROUBLE_NONE },
	{ WATCH_OPENING, WATCH_ON_LOST, WATCH_START, WATCH_END_LIVE | WATCH_RELIST, TROUBLE_NONE },
	{ WATCH_OPENING, WATCH_ON_LOST_AGAIN, WATCH_START, WATCH_END_LIVE | WATCH_COUNT,
	  TROUBLE_UNREACHABLE },
	{ WATCH_OPENING, WATCH_ON_LOST_EARLY, WATCH_PAUSED, WATCH_END_LIVE | WATCH_BACKOFF,
	  TROUBLE_UNREACHABLE },
	FAILURES(WATCH_OPENING),

	{ WATCH_STREAMING, WATCH_ON_DEMAND, WATCH_STAY, WATCH_READ, TROUBLE_NONE },
	{ WATCH_STREAMING, WATCH_ON_REFUTED, WATCH_STAY, WATCH_END_LIVE | WATCH_CANCEL,
	  TROUBLE_NONE },
	{ WATCH_STREAMING, WATCH_ON_CANCELLED, WATCH_IDLE, 0, TROUBLE_NONE },
	{ WATCH_STREAMING, WATCH_ON_FILLED, WATCH_STAY, WATCH_BEGIN_LIVE | WATCH_READ,
	  TROUBLE_NONE },
	{ WATCH_STREAMING, WATCH_ON_NOT_FILLED, WATCH_LISTING, 0, TROUBLE_NONE },
	{ WATCH_STREAMING, WATCH_ON_RETIRED, WATCH_START, 0, TROUBLE_NONE },
	{ WATCH_STREAMING, WATCH_ON_ENDED, WATCH_START, WATCH_COUNT, TROUBLE_UNREACHABLE },
	{ WATCH_STREAMING, WATCH_ON_ENDED_EARLY, WATCH_PAUSED, WATCH_BACKOFF, TROUBLE_UNREACHABLE },
	{ WATCH_STREAMING, WATCH_ON_LOST, WATCH_START, WATCH_END_LIVE | WATCH_RELIST,
	  TROUBLE_NONE },
	{ WATCH_STREAMING, WATCH_ON_LOST_AGAIN, WATCH_START, WATCH_END_LIVE | WATCH_COUNT,
	  TROUBLE_UNREACHABLE },
	{ WATCH_STREAMING, WATCH_ON_LOST_EARLY, WATCH_PAUSED, WATCH_END_LIVE | WATCH_BACKOFF,
	  TROUBLE_UNREACHABLE },
	{ WATCH_STREAMING, WATCH_ON_UNUSABLE, WATCH_PAUSED, WATCH_END_LIVE | WATCH_BACKOFF,
	  TROUBLE_UNREACHABLE },

	{ WATCH_PAUSED, WATCH_ON_DEMAND, WATCH_STAY, WATCH_READ, TROUBLE_NONE },
	{ WATCH_PAUSED, WATCH_ON_RETRY, WATCH_START, 0, TROUBLE_NONE },
	{ WATCH_PAUSED, WATCH_ON_REFUTED, WATCH_STAY, WATCH_END_LIVE, TROUBLE_NONE },
	{ WATCH_PAUSED, WATCH_ON_PAUSE_END, WATCH_START, 0, TROUBLE_NONE },
	{ WATCH_PAUSED, WATCH_ON_UNUSED, WATCH_IDLE, 0, TROUBLE_NONE },
};

/* Every pair of a state and an event is a row above, or has no cell. */
START_TEST(each_state_and_event_has_its_cell)
{
	size_t i = 0;

	for (int state = WATCH_IDLE; state < WATCH_STATES; state++)
		for (int event = 0; event < WATCH_EVENTS; event++) {
			const struct watch_step *s = watch_step_of(state, event);
			bool listed = i < ARRAY_LEN(cells) && (int)cells[i].state == state &&
			              (int)cells[i].event == event;

			ck_assert_msg(listed == (s->next != WATCH_NONE), "%s, %s", states[state],
			              events[event]);
			if (!listed)
				continue;
			ck_assert_msg(s->next == cells[i].next && s->actions == cells[i].actions &&
			                      s->trouble == cells[i].trouble,
			              "%s, %s: next %s, actions %x, %s", states[state],
			              events[event], states[s->next], s->actions,
			              troubles[s->trouble]);
			i++;
		}
	ck_assert_uint_eq(i, ARRAY_LEN(cells));
}
END_TEST

static bool ends_stream(enum watch_event e)
{
	return e >= WATCH_ON_NOT_FILLED && e <= WATCH_ON_UNUSABLE;
}

/* Rules that hold in every cell. */
START_TEST(no_change_is_missed_and_no_request_is_left)
{
	for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
		const struct watch_step *s = watch_step_of(cells[i].state, cells[i].event);
		enum watch_event e = cells[i].event;
		bool lost = e == WATCH_ON_REFUTED || e == WATCH_ON_REVERTED || e == WATCH_ON_LOST ||
		            e == WATCH_ON_LOST_AGAIN || e == WATCH_ON_LOST_EARLY ||
		            e == WATCH_ON_UNUSABLE || e == WATCH_ON_PERMANENT;
		bool complete = e == WATCH_ON_LISTED || e == WATCH_ON_FILLED;
		bool delayed = s->actions & (WATCH_BACKOFF | WATCH_BACKOFF_LONG | WATCH_REPEAT);

		ck_assert_msg(((s->actions & WATCH_END_LIVE) != 0) == lost, "row %zu: live", i);
		ck_assert_msg(((s->actions & WATCH_BEGIN_LIVE) != 0) == complete, "row %zu", i);
		ck_assert_msg(!complete || (s->actions & WATCH_READ), "row %zu reads nothing", i);
		ck_assert_msg(!delayed || s->next == WATCH_PAUSED, "row %zu does not pause", i);
		ck_assert_msg(!(ends_stream(e) || e >= WATCH_ON_UNAUTHORIZED) ||
		                      (s->next != WATCH_STAY && s->next != WATCH_IDLE),
		              "row %zu: the watch ends", i);
		ck_assert_msg(!(s->actions & WATCH_REPORT) || s->trouble == TROUBLE_PERMANENT,
		              "row %zu reports what may pass", i);
	}
}
END_TEST

static void add_actions(struct str *table, unsigned set)
{
	const char *comma = "";

	for (unsigned i = 0; i < WATCH_ACTIONS; i++) {
		if (!(set & (1U << i)))
			continue;
		str_addf(table, "%s%s", comma, actions[i]);
		comma = "; ";
	}
	if (!set)
		str_add(table, "-");
}

static bool same_step(const struct watch_step *a, const struct watch_step *b)
{
	return a->next == b->next && a->actions == b->actions && a->trouble == b->trouble;
}

/* Adds a row for all states in which the event has this step; nothing if an earlier state has it. */
static void add_step(struct str *table, int state, int event)
{
	const struct watch_step *s = watch_step_of(state, event);

	for (int k = WATCH_IDLE; k < state; k++)
		if (same_step(watch_step_of(k, event), s))
			return;
	str_addf(table, "| %s | %s", events[event], states[state]);
	for (int k = state + 1; k < WATCH_STATES; k++)
		if (same_step(watch_step_of(k, event), s))
			str_addf(table, ", %s", states[k]);
	str_add(table, " | ");
	add_actions(table, s->actions);
	str_addf(table, "%s | %s |\n", troubles[s->trouble], states[s->next]);
}

START_TEST(the_document_has_this_table)
{
	struct str table AUTO(str_clear) = STR_INIT(100000);

	str_add(&table, "| event | states | actions | next state |\n"
	                "| --- | --- | --- | --- |\n");
	for (int event = 0; event < WATCH_EVENTS; event++)
		for (int state = WATCH_IDLE; state < WATCH_STATES; state++)
			if (watch_step_of(state, event)->next != WATCH_NONE)
				add_step(&table, state, event);
	doc_table_check("docs/reference/watch.md", "cells", table.ptr);
}
END_TEST

SUITE("kube_watch_table", each_state_and_event_has_its_cell,
      no_change_is_missed_and_no_request_is_left, the_document_has_this_table);
