/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the two sides of waiting: kube_wait.c, on callers' threads, and
 * kube_watch.c, the state machine on the HTTP engine's thread. The client's lock guards the fields
 * that both use.
 */
#pragma once

#include "kube/kube_follow.h"
#include "kube/kube_priv.h"
#include "kube/kube_waits.h"
#include "kube/kube_watch_table.h"

/* Whether the stream can be resumed after the last event that it delivered. */
enum watch_resume {
	RESUME_KNOWN,   /* yes, at `version` */
	RESUME_EXPIRED, /* no, the server discarded that version (410): list again at once */
	/*
	 * No, the server is at an earlier version because its data were restored from an older
	 * backup, so the events after this resume point do not continue the list. List again, as
	 * for RESUME_EXPIRED.
	 */
	RESUME_REVERTED,
	RESUME_UNCLEAR, /* no, the stream delivered unusable data: list again after a pause */
};

/* The follower of a collection. Only the engine's thread uses it. */
struct kube_follow {
	struct kube_watch *w;
	kube_follow_fn *fn;
	void *arg;
	bool by_pages; /* lists by pages: the server does not send all objects in a stream */
	/* the stream is to deliver all objects, and has not delivered them all */
	bool filling;
	unsigned cut_short; /* consecutive full streams that ended before they were complete */
	unsigned listed;    /* objects that the current full stream has delivered */
	unsigned too_slow;  /* consecutive full streams that did not complete in time */
	struct http_timer patience;
	char *token; /* where the next page starts; NULL: at the beginning */
	int limit;   /* objects per page; 0: no page requested yet */
};

/* One per collection; exists until the client ends. */
struct kube_watch {
	struct kube_watch *next;
	struct kube *k;
	struct kube_kind kind; /* strings owned */
	char *ns;

	/* Under the client's lock. */
	struct kube_waits waits;
	bool resyncing;    /* the timer `resync` is set, or is about to be set */
	bool run_posted;   /* watch_run() is posted to the engine's thread and has not begun */
	char down[256];    /* why no stream is open now; "" if a stream is open */
	int64_t closed_at; /* when the last stream ended; monotonic ns; 0: a stream is open */
	unsigned lists;    /* how often the resume point came from a list */
	/* value of `lists` for the resume point that an answer contradicts; 0: none */
	unsigned refuted;
	struct kube_follow *follow; /* constant after the first wait or follower; NULL: none */

	void (*run)(void *arg); /* constant: runs on the engine's thread after watch_kick() */

	/*
	 * Called when a full stream has delivered all objects and the resume point is set; set by
	 * kube_watch.c.
	 */
	void (*on_filled)(struct kube_watch *w);
	/* The engine's thread only. */
	enum watch_state state;
	enum watch_trouble trouble;
	enum watch_resume resume;
	char version[RESOURCE_VERSION_MAX]; /* of the last event or list */
	bool unverified; /* `version` must be verified before a stream is requested from it */
	/* when an answer or a bookmark contradicted it; monotonic ns; 0: never */
	int64_t reverted_at;
	bool relisted;     /* a list followed a 410, and no event has arrived since */
	unsigned failures; /* consecutive failures, until a stream is open for HEALTHY_MS */
	int64_t tried_at;  /* time of the last request for a list or a stream; monotonic ns */
	int64_t listed_at, streamed_at; /* the same for each kind of request; 0: never */
	int64_t opened_at;        /* when the server answered (WATCH_STREAMING); monotonic ns */
	struct http_call *stream; /* the stream's request; NULL after it has ended */
	struct str line;          /* the received part of an incomplete line */
	struct http_timer pause;
	/*
	 * Each is done once between two successes: after a 401 the credentials are re-read before
	 * each attempt; a request with a possibly mistaken answer is repeated.
	 */
	bool reread_credentials, asked_again;

	/* Used only by kube_watch_read.c, on the engine's thread. */
	unsigned long reads; /* number of reads started, which is also the number of the last one */
	unsigned reads_under_way;
	unsigned read_failures;
	unsigned resync_failures;
	/* last read that had begun when a possibly mistaken refusal arrived; 0: no refusal */
	unsigned long refused;
	struct http_timer read_pause, resync;
};

/* ---- kube_watch.c, lock held ---- */

/* Returns the watch of this collection; the first call creates it. */
struct kube_watch *watch_for(struct kube *k, const struct kube_kind *kind, const char *ns);

/* ---- kube_resume_point.c ---- */

/* Lock held. Returns the watch of this collection, or NULL. */
struct kube_watch *watch_find(struct kube *k, const struct kube_kind *kind, const char *ns);
/*
 * The engine's thread. Sets the resume point: later events of the server are newer than this
 * version.
 */
void watch_set_version(struct kube_watch *w, struct line_span version);
/*
 * The engine's thread. Returns true if the server's current version is lower than the resume point,
 * that is, the server's data are older than the delivered events. Logs a warning in this case.
 */
bool watch_is_reverted(const struct kube_watch *w, struct line_span version);
/*
 * Like watch_is_reverted(), but for the version of an answer or a bookmark, and true at most once
 * per watch_silence_ms. Otherwise a server whose versions have no order would cause a list with
 * each answer.
 */
bool watch_is_refuted(struct kube_watch *w, struct line_span version);
/*
 * The engine's thread. Returns true if an answer has contradicted the resume point and no list has
 * followed, and clears that state, so that the next call returns false.
 */
bool watch_consume_refuted(struct kube_watch *w);

/* ---- kube_watch_state.c ---- */

/* Lock held. Posts a run of the state machine to the engine's thread. */
void watch_kick(struct kube_watch *w);
/* Records why no stream is open now. */
void watch_set_down(struct kube_watch *w, const char *why);
void watch_set_open(struct kube_watch *w); /* records that a stream is open */
void watch_set_closed(struct kube_watch *w);
/*
 * Call it when the resume point is known and a follower has received all objects: every later
 * change arrives as an event.
 */
void watch_begin_live(struct kube_watch *w);
void watch_end_live(struct kube_watch *w);
static inline bool watch_is_live(struct kube_watch *w)
{
	WITH_LOCK(&w->k->lock);
	return w->waits.live;
}

/* ---- kube_watch_events.c, the engine's thread ---- */

/*
 * Processes the next bytes of the stream. Returns false if the stream has ended or is unusable;
 * w->resume then has the reason. For RESUME_UNCLEAR, w->down describes it.
 */
bool watch_receive_bytes(struct kube_watch *w, const char *bytes, size_t n);

/* ---- kube_watch_read.c, the engine's thread ---- */

void watch_reads_init(struct kube_watch *w);
/* Starts to read awaited objects without events every resync_ms, a few per second. */
void watch_resync_start(struct kube_watch *w);
/*
 * Reads each object that must be read, a few at a time, and continues on its own while the watch is
 * live. A read with a temporary error is repeated after a pause.
 */
void watch_reads_start(struct kube_watch *w);

/* ---- kube_watch_all.c, the engine's thread; w->follow may be NULL only where noted ---- */

/* Returns true if a stream is expected to deliver all objects; false if w->follow is NULL. */
bool watch_all_by_stream(const struct kube_watch *w);
/*
 * Call it when a stream was requested that delivers all objects first. Cancels the stream if it
 * does not deliver them in time.
 */
void watch_all_fill(struct kube_watch *w);
/* Returns true if this module has cancelled the stream; false if w->follow is NULL. */
bool watch_all_gave_up(const struct kube_watch *w);
/*
 * Call it when the stream has ended. Returns true if the stream should have delivered all objects
 * but did not, so pages must be requested instead. w->follow may be NULL.
 */
bool watch_all_fill_ended(struct kube_watch *w, const struct http_result *r);
/* The result of an event other than ERROR while a full stream delivers all objects. */
enum watch_fill {
	FILL_GOES_ON,
	FILL_COMPLETE,   /* the last event: its resourceVersion is the resume point */
	FILL_NOT_SERVED, /* the server did not understand the request */
};
enum watch_fill watch_all_filled(struct kube_watch *w, const struct kube_event *e);
/* Passes a later change to the follower. w->follow may be NULL. */
void watch_all_changed(struct kube_watch *w, const struct kube_event *e);
/* Returns the query of the next page, malloc'ed. */
char *watch_all_page_query(struct kube_watch *w);
enum watch_page {
	PAGE_LAST,
	PAGE_NOT_THE_LAST,
	PAGE_UNUSABLE,
};
enum watch_page watch_all_page(struct kube_watch *w, const struct http_result *r);
/* Makes the first page the next one. w->follow may be NULL. */
void watch_all_restart(struct kube_watch *w);
/*
 * Returns true if the page must be requested again at once, with fewer objects. w->follow may be
 * NULL.
 */
bool watch_all_page_failed(struct kube_watch *w, const struct http_result *r);
/*
 * Call it when neither list nor watch is permitted, or they are not served. w->follow may be NULL.
 */
void watch_all_refused(struct kube_watch *w, const char *why);
