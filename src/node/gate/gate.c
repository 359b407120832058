/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the gate. The stream is the permission: as long as a client holds one, functions may
 * be used, even if the preparation fails. A driver without the gate behaves in the same way: on a
 * host that is not fully prepared it serves the calls that can succeed. test_gate.c tests all
 * cells, and generates the table of docs/operate/gate.md from them.
 */
#include "node/gate/gate.h"

#include <assert.h>

#include "common/str.h"

#define GIVEN_UP "nothing changes: the result of an ended stream's preparation is ignored"
#define NOBODY "nothing changes: no stream held the gate"
#define OTHER_NODE "the call is refused, INVALID_ARGUMENT, with both names; nothing else changes"
#define GOES_ON_WITHOUT                                                             \
	"waiting stages return UNAVAILABLE, stages in progress finish; the driver " \
	"unregisters from kubelet unless a volume is staged"
#define OLDER \
	"the call is refused, FAILED_PRECONDITION, with both generations; the held stream continues"
#define NEWER                                                                       \
	"the held stream gets STOPPING and ends with ABORTED; the new stream gets " \
	"INITIALIZING, and the host is prepared again; stages and registration continue"
#define STOPS \
	"the stream gets STOPPING and ends with UNAVAILABLE; waiting stages return UNAVAILABLE"
#define STOPPING "the call is refused, UNAVAILABLE: the driver is stopping"

#define BEGIN_NEW (GATE_RETIRE | GATE_TAKE | GATE_PREPARE | GATE_ANNOUNCE)

static const struct gate_step steps[GATE_STATES][GATE_EVENTS] = {
	[GATE_CLOSED] = {
		[GATE_ENABLE] = { GATE_PREPARING, GATE_TAKE | GATE_PREPARE | GATE_ANNOUNCE,
			"the stream is held and gets INITIALIZING; kernel modules are loaded and VFs created" },
		[GATE_OUTDATED] = { GATE_CLOSED, GATE_REFUSE,
			"impossible: without a held stream, any generation is accepted" },
		[GATE_WRONG_NODE] = { GATE_CLOSED, GATE_REFUSE, OTHER_NODE },
		[GATE_PREPARED] = { GATE_CLOSED, 0, GIVEN_UP },
		[GATE_UNPREPARED] = { GATE_CLOSED, 0, GIVEN_UP },
		[GATE_LEFT] = { GATE_CLOSED, 0, NOBODY },
		[GATE_STOP] = { GATE_STOPPED, 0, "new calls are refused" },
	},
	[GATE_PREPARING] = {
		[GATE_ENABLE] = { GATE_PREPARING, BEGIN_NEW, NEWER },
		[GATE_OUTDATED] = { GATE_PREPARING, GATE_REFUSE, OLDER },
		[GATE_WRONG_NODE] = { GATE_PREPARING, GATE_REFUSE, OTHER_NODE },
		[GATE_PREPARED] = { GATE_OPEN, GATE_ANNOUNCE,
			"the stream gets SERVING, with counts; the driver registers with kubelet" },
		[GATE_UNPREPARED] = { GATE_FAILED, GATE_ANNOUNCE,
			"the stream gets ERROR, with the text; the driver registers anyway, "
			"because some volumes may work (hot-plugged functions need no VFs)" },
		[GATE_LEFT] = { GATE_CLOSED, GATE_WITHDRAW | GATE_DROP, GOES_ON_WITHOUT },
		[GATE_STOP] = { GATE_STOPPED, GATE_RETIRE | GATE_WITHDRAW | GATE_DROP, STOPS },
	},
	[GATE_OPEN] = {
		[GATE_ENABLE] = { GATE_PREPARING, BEGIN_NEW, NEWER },
		[GATE_OUTDATED] = { GATE_OPEN, GATE_REFUSE, OLDER },
		[GATE_WRONG_NODE] = { GATE_OPEN, GATE_REFUSE, OTHER_NODE },
		[GATE_PREPARED] = { GATE_OPEN, 0, "nothing changes: the gate is open" },
		[GATE_UNPREPARED] = { GATE_OPEN, 0, "impossible: an open gate prepares nothing" },
		[GATE_LEFT] = { GATE_CLOSED, GATE_WITHDRAW | GATE_DROP, GOES_ON_WITHOUT },
		[GATE_STOP] = { GATE_STOPPED, GATE_RETIRE | GATE_WITHDRAW | GATE_DROP, STOPS },
	},
	[GATE_FAILED] = {
		[GATE_ENABLE] = { GATE_PREPARING, BEGIN_NEW, NEWER },
		[GATE_OUTDATED] = { GATE_FAILED, GATE_REFUSE, OLDER },
		[GATE_WRONG_NODE] = { GATE_FAILED, GATE_REFUSE, OTHER_NODE },
		[GATE_PREPARED] = { GATE_OPEN, GATE_ANNOUNCE,
			"the stream gets SERVING, with counts: the retry succeeded" },
		[GATE_UNPREPARED] = { GATE_FAILED, GATE_ANNOUNCE,
			"the stream gets ERROR again, with the error text of the last attempt" },
		[GATE_LEFT] = { GATE_CLOSED, GATE_WITHDRAW | GATE_DROP, GOES_ON_WITHOUT },
		[GATE_STOP] = { GATE_STOPPED, GATE_RETIRE | GATE_WITHDRAW | GATE_DROP, STOPS },
	},
	[GATE_STOPPED] = {
		[GATE_ENABLE] = { GATE_STOPPED, GATE_REFUSE, STOPPING },
		[GATE_OUTDATED] = { GATE_STOPPED, GATE_REFUSE, STOPPING },
		[GATE_WRONG_NODE] = { GATE_STOPPED, GATE_REFUSE, OTHER_NODE },
		[GATE_PREPARED] = { GATE_STOPPED, 0, GIVEN_UP },
		[GATE_UNPREPARED] = { GATE_STOPPED, 0, GIVEN_UP },
		[GATE_LEFT] = { GATE_STOPPED, 0, NOBODY },
		[GATE_STOP] = { GATE_STOPPED, 0, "nothing changes" },
	},
};

const struct gate_step *gate_step(enum gate_state state, enum gate_event event)
{
	assert(state < GATE_STATES && event < GATE_EVENTS);
	return &steps[state][event];
}

enum gate_event gate_event_of(const char *node, const char *asked_node, bool is_held, int64_t held,
                              int64_t asked)
{
	if (!str_eq(node, asked_node))
		return GATE_WRONG_NODE;
	return is_held && asked < held ? GATE_OUTDATED : GATE_ENABLE;
}

bool gate_permits(enum gate_state state)
{
	return state == GATE_PREPARING || state == GATE_OPEN || state == GATE_FAILED;
}

enum gate_registration gate_registration(enum gate_state state)
{
	static const enum gate_registration of[GATE_STATES] = {
		[GATE_CLOSED] = GATE_WHILE_STAGED, [GATE_PREPARING] = GATE_AS_BEFORE,
		[GATE_OPEN] = GATE_REGISTERED,     [GATE_FAILED] = GATE_REGISTERED,
		[GATE_STOPPED] = GATE_AS_BEFORE,
	};

	return of[state];
}

const char *gate_state_name(enum gate_state state)
{
	static const char *const names[GATE_STATES] = {
		[GATE_CLOSED] = "closed", [GATE_PREPARING] = "preparing", [GATE_OPEN] = "open",
		[GATE_FAILED] = "failed", [GATE_STOPPED] = "stopped",
	};

	return names[state];
}
