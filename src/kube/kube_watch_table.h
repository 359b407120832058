/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of a watch as a table: state and event -> actions and next state. Pure: no
 * lock, no clock, no request. kube_watch.c finds out which event has happened and executes the
 * actions; docs/watch.md has the theory of operation and the table.
 */
#pragma once

/* What is under way. */
enum watch_state {
	WATCH_NONE,      /* of a cell: the event cannot happen in this state */
	WATCH_IDLE,      /* nothing: no caller has waited yet, or no caller waits any more */
	WATCH_LISTING,   /* a list, or a page of it, is requested */
	WATCH_VERIFYING, /* a list of one object is requested, for the server's version */
	WATCH_OPENING,   /* a stream is requested, the server has not answered yet */
	WATCH_STREAMING, /* the stream is open and brings events */
	WATCH_PAUSED,    /* until the timer `pause` ends, or earlier */
	WATCH_STATES,
	/* Only as a next state: */
	WATCH_STAY,
	/*
	 * LISTING if the watch is not live (a follower's full stream: OPENING), VERIFYING if the
	 * resume point is unverified, else OPENING; PAUSED if the last such request is too recent.
	 */
	WATCH_START,
};

enum watch_event {
	/* Callers. */
	WATCH_ON_DEMAND,  /* a wait or a follower is new, or a caller asks for its object */
	WATCH_ON_RETRY,   /* the same in a pause whose reason may be over */
	WATCH_ON_REFUTED, /* an answer to a caller's request refutes the resume point */
	/* The pause. */
	WATCH_ON_PAUSE_END,
	WATCH_ON_UNUSED, /* the pause after a permanent error has ended, and no caller waits */
	/* Any request: the client stops. */
	WATCH_ON_CANCELLED,
	/* A list. */
	WATCH_ON_PAGE, /* there is another page, or the page was too large: smaller ones follow */
	WATCH_ON_LISTED,
	WATCH_ON_VERIFIED, /* the server's version is not lower than the resume point */
	WATCH_ON_REVERTED, /* it is lower */
	/* A stream. */
	WATCH_ON_OPENED,
	WATCH_ON_FILLED,      /* a full stream has brought all objects */
	WATCH_ON_NOT_FILLED,  /* a full stream is not served, or its time is over */
	WATCH_ON_RETIRED,     /* its connection was retired */
	WATCH_ON_ENDED,       /* it has lived for a while, or ended early for the first time */
	WATCH_ON_ENDED_EARLY, /* it ended early again */
	WATCH_ON_LOST,        /* the resume point has expired or is refuted */
	WATCH_ON_LOST_AGAIN,  /* no event has come since the list after the last time */
	WATCH_ON_LOST_EARLY,  /* the same, and the stream ended early again */
	WATCH_ON_UNUSABLE,    /* a line cannot be read, or an ERROR event other than 410 */
	/* A list or a stream that failed. */
	WATCH_ON_UNAUTHORIZED, /* 401, the first since a success */
	WATCH_ON_MISTAKE,      /* 401 again, 403, not served: the first since a success */
	WATCH_ON_UNREACHABLE,  /* no answer */
	WATCH_ON_BUSY,         /* 429, 5xx, an answer that is not a list */
	WATCH_ON_PERMANENT,    /* anything else: 403, no such API group */
	WATCH_EVENTS,
};

/* The cause of the last failure. It decides what may end a pause early, and outlives retries. */
enum watch_trouble {
	TROUBLE_NONE, /* of a cell: as before */
	/* The server answered 429 or 5xx: a pause takes its full time. */
	TROUBLE_BUSY,
	/* No answer, or a broken stream: a pause ends when a caller's request is answered. */
	TROUBLE_UNREACHABLE,
	/* An error that does not pass by itself: a pause ends when a caller asks, after a time. */
	TROUBLE_PERMANENT,
};

/* Executed in this order; the next state is entered before WATCH_READ. */
enum watch_action {
	WATCH_END_LIVE = 1 << 0,      /* changes may be missed: awaited objects are to be read */
	WATCH_GIVE_UP = 1 << 1,       /* the same after RESUME_TRIES failures in a row */
	WATCH_REPORT = 1 << 2,        /* the error is reported to all waits and to the follower */
	WATCH_CANCEL = 1 << 3,        /* the stream is cancelled */
	WATCH_SET_OPEN = 1 << 4,      /* the stream is open; second chances are given again */
	WATCH_COUNT = 1 << 5,         /* counts as a failure until a stream lives for a while */
	WATCH_RELIST = 1 << 6,        /* the next LOST is LOST_AGAIN unless an event comes before */
	WATCH_REREAD = 1 << 7,        /* credentials are read again before each request */
	WATCH_REPEAT = 1 << 8,        /* the request is repeated after mistake_ms, once */
	WATCH_BACKOFF = 1 << 9,       /* counts as a failure; back-off, and Retry-After */
	WATCH_BACKOFF_LONG = 1 << 10, /* the same from LONG_MS, without Retry-After */
	WATCH_BEGIN_LIVE = 1 << 11,   /* every later change comes as an event */
	WATCH_READ = 1 << 12,         /* if live: reads of awaited objects are started */
	WATCH_ACTIONS = 13,
};

struct watch_step {
	enum watch_state next; /* WATCH_NONE: there is no such cell */
	unsigned actions;
	enum watch_trouble trouble;
};

/* Never NULL. */
const struct watch_step *watch_step_of(enum watch_state state, enum watch_event event);
