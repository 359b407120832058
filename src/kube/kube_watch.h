/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the two sides of waiting: kube_wait.c, which callers' threads enter, and kube_watch.c,
 * the state machine on the HTTP engine's thread. What both touch is under the client's lock.
 */
#pragma once

#include "kube/kube_follow.h"
#include "kube/kube_priv.h"
#include "kube/kube_waits.h"
#include "kube/kube_watch_table.h"

/* Whether the stream can be opened again behind the last event that it brought. */
enum watch_resume {
	RESUME_KNOWN,   /* yes, at `version` */
	RESUME_EXPIRED, /* no, the server no longer has it (410): list again, at once if possible */
	/*
	 * No, the server is at an earlier version: its data were restored from an older backup, and
	 * the events after this resume point do not continue the list. List again, as for EXPIRED.
	 */
	RESUME_REVERTED,
	RESUME_UNCLEAR, /* no, the stream brought something unusable: list again after a pause */
};

/* The follower of a collection. The engine's thread only. */
struct kube_follow {
	struct kube_watch *w;
	kube_follow_fn *fn;
	void *arg;
	bool by_pages;      /* the server does not send all objects in a stream */
	bool filling;       /* the stream is to bring all objects, and has not brought them all */
	unsigned cut_short; /* streams that ended while they did */
	unsigned listed;    /* objects that the stream has brought so far, while it did */
	unsigned too_slow;  /* streams, one after the other, whose time for it was over */
	struct http_timer patience;
	char *token; /* where the next page starts; NULL: at the beginning */
	int limit;   /* objects per page; 0: not asked for any yet */
};

/* One per collection; stays for the life of the client. */
struct kube_watch {
	struct kube_watch *next;
	struct kube *k;
	struct kube_kind kind; /* strings owned */
	char *ns;

	/* Under the client's lock. */
	struct kube_waits waits;
	bool resyncing;    /* the timer `resync` is set, or is about to be */
	bool run_posted;   /* watch_run() is posted to the engine's thread and has not begun */
	char down[256];    /* why there is no stream at the moment; "" when there is */
	int64_t closed_at; /* since when there is none; monotonic ns; 0: there is one */
	unsigned lists;    /* how often the resume point came from a list */
	unsigned refuted;  /* `lists` of a resume point that an answer refutes; 0: none */
	struct kube_follow *follow; /* constant after the first wait or follower; NULL: none */

	void (*run)(void *arg); /* constant: runs on the engine's thread after watch_kick() */

	/* A full stream has brought all objects, and the resume point is set: kube_watch.c's. */
	void (*on_filled)(struct kube_watch *w);
	/* The engine's thread only. */
	enum watch_state state;
	enum watch_trouble trouble;
	enum watch_resume resume;
	char version[RESOURCE_VERSION_MAX]; /* of the last event or list */
	bool unverified;     /* it is to be verified before a stream is requested from there */
	int64_t reverted_at; /* it was refuted by an answer or a bookmark; monotonic ns; 0: never */
	bool relisted;       /* 410 was answered by a list, and no event has come since */
	unsigned failures;   /* since a stream has lived for HEALTHY_MS */
	int64_t tried_at;    /* the last list or stream was asked for; monotonic ns */
	int64_t listed_at, streamed_at; /* the same, of each kind; 0: never */
	int64_t opened_at;        /* the stream was answered (WATCH_STREAMING); monotonic ns */
	struct http_call *stream; /* its request, until that has ended */
	struct str line;          /* what has come of a line whose end has not come */
	struct http_timer pause;
	/*
	 * Second chances, given once between two successes: after a 401 the credentials are read
	 * again before each try; what may be a mistake is asked for once more.
	 */
	bool reread_credentials, asked_again;

	/* kube_watch_read.c's own, the engine's thread only. */
	unsigned long reads; /* started so far: the number of the last one */
	unsigned reads_under_way;
	unsigned read_failures;
	unsigned resync_failures;
	unsigned long refused; /* the last read before one was refused, perhaps by mistake; or 0 */
	struct http_timer read_pause, resync;
};

/* ---- kube_watch.c, lock held ---- */

/* The watch of this collection, made when it is asked for first. */
struct kube_watch *watch_for(struct kube *k, const struct kube_kind *kind, const char *ns);

/* ---- kube_resume_point.c ---- */

/* Lock held. The watch of this collection, or NULL. */
struct kube_watch *watch_find(struct kube *k, const struct kube_kind *kind, const char *ns);
/* The engine's thread. Later events of the server are newer than this version. */
void watch_set_version(struct kube_watch *w, struct line_span version);
/*
 * The engine's thread. Is the server's current version lower than the resume point? Then the
 * server's data are older than the delivered events; logs a warning.
 */
bool watch_is_reverted(const struct kube_watch *w, struct line_span version);
/*
 * The same for the version of an answer or a bookmark, but true at most once per watch_silence_ms:
 * a server whose versions have no order would otherwise cause a list with each of them.
 */
bool watch_is_refuted(struct kube_watch *w, struct line_span version);
/* The engine's thread. True, once: an answer has refuted the resume point, and no list followed. */
bool watch_consume_refuted(struct kube_watch *w);

/* ---- kube_watch_state.c ---- */

/* Lock held. Posts a run of the state machine to the engine's thread. */
void watch_kick(struct kube_watch *w);
/* Why there is no stream at the moment. */
void watch_set_down(struct kube_watch *w, const char *why);
void watch_set_open(struct kube_watch *w); /* there is one */
void watch_set_closed(struct kube_watch *w);
/*
 * The resume point is known, and a follower has received all objects: every later change comes as
 * an event.
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
 * The next bytes of the stream. False: it has ended or is of no use any more, and w->resume says
 * why. Where it is unclear, the reason is set down.
 */
bool watch_receive_bytes(struct kube_watch *w, const char *bytes, size_t n);

/* ---- kube_watch_read.c, the engine's thread ---- */

void watch_reads_init(struct kube_watch *w);
/* From now on, reads awaited objects without events every resync_ms, a few per second. */
void watch_resync_start(struct kube_watch *w);
/*
 * Reads each object that is to be read, a few at a time, and goes on by itself while the watch is
 * live. What fails and may pass is read again after a pause.
 */
void watch_reads_start(struct kube_watch *w);

/* ---- kube_watch_all.c, the engine's thread; w->follow may be NULL only where it is said ---- */

/* Is a stream asked to bring all objects? follow may be NULL: no. */
bool watch_all_by_stream(const struct kube_watch *w);
/* A stream is asked for that brings all objects first. It is cancelled when it does not. */
void watch_all_fill(struct kube_watch *w);
/* Was it this room that has cancelled the stream? follow may be NULL: no. */
bool watch_all_gave_up(const struct kube_watch *w);
/*
 * The stream has ended. True: it was to bring all objects, did not, and pages are to be asked for
 * instead. follow may be NULL.
 */
bool watch_all_fill_ended(struct kube_watch *w, const struct http_result *r);
/* An event, no ERROR, while all objects are brought. */
enum watch_fill {
	FILL_GOES_ON,
	FILL_COMPLETE,   /* it was the last: the event's resourceVersion is the resume point */
	FILL_NOT_SERVED, /* the server did not understand what it was asked for */
};
enum watch_fill watch_all_filled(struct kube_watch *w, const struct kube_event *e);
/* A later change; follow may be NULL. */
void watch_all_changed(struct kube_watch *w, const struct kube_event *e);
/* The query of the next page, malloc'ed. */
char *watch_all_page_query(struct kube_watch *w);
enum watch_page {
	PAGE_LAST,
	PAGE_NOT_THE_LAST,
	PAGE_UNUSABLE,
};
enum watch_page watch_all_page(struct kube_watch *w, const struct http_result *r);
/* The next page is the first one. follow may be NULL. */
void watch_all_restart(struct kube_watch *w);
/* True: the page is to be asked for again at once, with fewer objects. follow may be NULL. */
bool watch_all_page_failed(struct kube_watch *w, const struct http_result *r);
/* Neither list nor watch is allowed, or they are not served. follow may be NULL. */
void watch_all_refused(struct kube_watch *w, const char *why);
