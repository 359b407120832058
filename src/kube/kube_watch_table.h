/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of a watch as a table: state and event -> actions and next state. Pure: no
 * lock, no clock, no request. kube_watch.c determines the event and executes the actions;
 * docs/reference/watch.md contains the theory of operation and the table.
 */
#pragma once

/* The current activity. */
enum watch_state {
	WATCH_NONE,      /* in a table cell: the event cannot happen in this state */
	WATCH_IDLE,      /* nothing: no caller has waited yet, or no caller waits any more */
	WATCH_LISTING,   /* a list, or a page of it, is requested */
	WATCH_VERIFYING, /* a list of one object is requested, for the server's version */
	WATCH_OPENING,   /* a stream is requested, the server has not answered yet */
	WATCH_STREAMING, /* the stream is open and delivers events */
	WATCH_PAUSED,    /* until the timer `pause` ends, or earlier */
	WATCH_STATES,
	/* Only as a next state: */
	WATCH_STAY,
	/*
	 * LISTING if the watch is not live (OPENING if a follower gets a full stream), VERIFYING if
	 * the resume point is unverified, else OPENING; PAUSED if the last such request is too
	 * recent.
	 */
	WATCH_START,
};

enum watch_event {
	/* Events from callers. */
	WATCH_ON_DEMAND,  /* a new wait or follower, or a caller waits for its object */
	WATCH_ON_RETRY,   /* like ON_DEMAND, during a pause whose reason may no longer exist */
	WATCH_ON_REFUTED, /* an answer to a caller's request contradicts the resume point */
	/* Events of a pause. */
	WATCH_ON_PAUSE_END,
	WATCH_ON_UNUSED, /* the pause after a permanent error has ended, and no caller waits */
	/* Event of any request: the client stops. */
	WATCH_ON_CANCELLED,
	/* Events of a list. */
	WATCH_ON_PAGE, /* another page follows, or the page was too large and smaller ones follow */
	WATCH_ON_LISTED,
	WATCH_ON_VERIFIED, /* the server's version is not lower than the resume point */
	WATCH_ON_REVERTED, /* the server's version is lower than the resume point */
	/* Events of a stream. */
	WATCH_ON_OPENED,
	WATCH_ON_FILLED,      /* a full stream has delivered all objects */
	WATCH_ON_NOT_FILLED,  /* a full stream is not served, or did not finish in time */
	WATCH_ON_RETIRED,     /* the stream's connection was retired */
	WATCH_ON_ENDED,       /* it was open for some time, or ended early for the first time */
	WATCH_ON_ENDED_EARLY, /* the stream ended early again */
	WATCH_ON_LOST,        /* the resume point has expired or is contradicted */
	WATCH_ON_LOST_AGAIN,  /* no event has arrived since the list after the last loss */
	WATCH_ON_LOST_EARLY,  /* like LOST_AGAIN, and the stream ended early again */
	WATCH_ON_UNUSABLE,    /* a line cannot be read, or an ERROR event other than 410 */
	/* Events of a list or stream that failed. */
	WATCH_ON_UNAUTHORIZED, /* the first 401 since a success */
	WATCH_ON_MISTAKE,      /* another 401, a 403 or "not served": the first since a success */
	WATCH_ON_UNREACHABLE,  /* no answer */
	WATCH_ON_BUSY,         /* 429, 5xx, an answer that is not a list */
	WATCH_ON_PERMANENT,    /* any other failure: 403, no such API group */
	WATCH_EVENTS,
};

/* The cause of the last failure. It decides what may end a pause early, and outlives retries. */
enum watch_trouble {
	TROUBLE_NONE, /* in a table cell: unchanged */
	/* The server answered 429 or 5xx: a pause takes its full time. */
	TROUBLE_BUSY,
	/* No answer, or a broken stream: a pause ends when a caller's request is answered. */
	TROUBLE_UNREACHABLE,
	/* A permanent error: a pause ends after some time when a caller waits. */
	TROUBLE_PERMANENT,
};

/* Executed in this order; the next state is set before WATCH_READ. */
enum watch_action {
	WATCH_END_LIVE = 1 << 0, /* changes may be missed: awaited objects must be read */
	WATCH_GIVE_UP = 1 << 1,  /* like END_LIVE, after RESUME_TRIES consecutive failures */
	WATCH_REPORT = 1 << 2,   /* the error is reported to all waits and to the follower */
	WATCH_CANCEL = 1 << 3,   /* the stream is cancelled */
	WATCH_SET_OPEN = 1 << 4, /* the stream is open; second chances are available again */
	/* counts as a failure until a stream was open for some time */
	WATCH_COUNT = 1 << 5,
	/* the next loss is LOST_AGAIN unless an event arrives first */
	WATCH_RELIST = 1 << 6,
	WATCH_REREAD = 1 << 7,        /* credentials are re-read before each request */
	WATCH_REPEAT = 1 << 8,        /* the request is repeated after mistake_ms, once */
	WATCH_BACKOFF = 1 << 9,       /* counts as a failure; back-off, and Retry-After */
	WATCH_BACKOFF_LONG = 1 << 10, /* like BACKOFF, from LONG_MS, without Retry-After */
	WATCH_BEGIN_LIVE = 1 << 11,   /* every later change arrives as an event */
	WATCH_READ = 1 << 12,         /* if live: reads of awaited objects are started */
	WATCH_ACTIONS = 13,
};

struct watch_step {
	enum watch_state next; /* WATCH_NONE: the cell does not exist */
	unsigned actions;
	enum watch_trouble trouble;
};

/* Returns the table's cell; never NULL. */
const struct watch_step *watch_step_of(enum watch_state state, enum watch_event event);
