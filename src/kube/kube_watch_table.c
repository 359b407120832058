/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a watch's state machine. test_kube_watch_table.c compares every cell, and writes
 * docs/reference/watch.md from it. An event without a cell cannot happen in that state.
 */
#include "kube/kube_watch_table.h"

#include <assert.h>

/* The failures of a list, a check or a stream. */
#define FAILURES                                                                                   \
	[WATCH_ON_CANCELLED] = { WATCH_IDLE },                                                     \
	[WATCH_ON_UNAUTHORIZED] = { WATCH_PAUSED, WATCH_REREAD },                                  \
	[WATCH_ON_MISTAKE] = { WATCH_PAUSED, WATCH_REPEAT },                                       \
	[WATCH_ON_UNREACHABLE] = { WATCH_PAUSED, WATCH_GIVE_UP | WATCH_BACKOFF,                    \
		                   TROUBLE_UNREACHABLE },                                          \
	[WATCH_ON_BUSY] = { WATCH_PAUSED, WATCH_GIVE_UP | WATCH_BACKOFF, TROUBLE_BUSY },           \
	[WATCH_ON_PERMANENT] = { WATCH_PAUSED, WATCH_END_LIVE | WATCH_REPORT | WATCH_BACKOFF_LONG, \
		                 TROUBLE_PERMANENT }

/* The ends of a stream that are handled in the same way before and after the server's answer. */
#define STREAM_ENDS                                                                      \
	[WATCH_ON_REFUTED] = { WATCH_STAY, WATCH_END_LIVE | WATCH_CANCEL },              \
	[WATCH_ON_NOT_FILLED] = { WATCH_LISTING }, [WATCH_ON_RETIRED] = { WATCH_START }, \
	[WATCH_ON_LOST] = { WATCH_START, WATCH_END_LIVE | WATCH_RELIST },                \
	[WATCH_ON_LOST_AGAIN] = { WATCH_START, WATCH_END_LIVE | WATCH_COUNT,             \
		                  TROUBLE_UNREACHABLE },                                 \
	[WATCH_ON_LOST_EARLY] = { WATCH_PAUSED, WATCH_END_LIVE | WATCH_BACKOFF,          \
		                  TROUBLE_UNREACHABLE }

static const struct watch_step steps[WATCH_STATES][WATCH_EVENTS] = {
	[WATCH_IDLE] = {
		[WATCH_ON_DEMAND] = { WATCH_START },
		[WATCH_ON_REFUTED] = { WATCH_STAY, WATCH_END_LIVE },
	},
	[WATCH_LISTING] = {
		[WATCH_ON_DEMAND] = { WATCH_STAY, WATCH_READ },
		[WATCH_ON_REFUTED] = { WATCH_STAY, WATCH_END_LIVE },
		[WATCH_ON_PAGE] = { WATCH_LISTING },
		[WATCH_ON_LISTED] = { WATCH_START, WATCH_BEGIN_LIVE | WATCH_READ },
		FAILURES,
	},
	[WATCH_VERIFYING] = {
		[WATCH_ON_DEMAND] = { WATCH_STAY, WATCH_READ },
		[WATCH_ON_REFUTED] = { WATCH_STAY, WATCH_END_LIVE },
		[WATCH_ON_VERIFIED] = { WATCH_START },
		[WATCH_ON_REVERTED] = { WATCH_START, WATCH_END_LIVE },
		FAILURES,
	},
	[WATCH_OPENING] = {
		[WATCH_ON_DEMAND] = { WATCH_STAY, WATCH_READ },
		[WATCH_ON_OPENED] = { WATCH_STREAMING, WATCH_SET_OPEN },
		STREAM_ENDS,
		FAILURES,
	},
	[WATCH_STREAMING] = {
		[WATCH_ON_DEMAND] = { WATCH_STAY, WATCH_READ },
		[WATCH_ON_CANCELLED] = { WATCH_IDLE },
		[WATCH_ON_FILLED] = { WATCH_STAY, WATCH_BEGIN_LIVE | WATCH_READ },
		STREAM_ENDS,
		[WATCH_ON_ENDED] = { WATCH_START, WATCH_COUNT, TROUBLE_UNREACHABLE },
		[WATCH_ON_ENDED_EARLY] = { WATCH_PAUSED, WATCH_BACKOFF, TROUBLE_UNREACHABLE },
		[WATCH_ON_UNUSABLE] = { WATCH_PAUSED, WATCH_END_LIVE | WATCH_BACKOFF,
			TROUBLE_UNREACHABLE },
	},
	[WATCH_PAUSED] = {
		[WATCH_ON_DEMAND] = { WATCH_STAY, WATCH_READ },
		[WATCH_ON_RETRY] = { WATCH_START },
		[WATCH_ON_REFUTED] = { WATCH_STAY, WATCH_END_LIVE },
		[WATCH_ON_PAUSE_END] = { WATCH_START },
		[WATCH_ON_UNUSED] = { WATCH_IDLE },
	},
};

const struct watch_step *watch_step_of(enum watch_state state, enum watch_event event)
{
	assert(state > WATCH_NONE && state < WATCH_STATES && event < WATCH_EVENTS);
	return &steps[state][event];
}
