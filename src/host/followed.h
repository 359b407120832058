/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attachments of this host that `host watch` follows: what the API server has told of each, and
 * when which step of it is due. No object is kept, only what has to be compared. No I/O and no
 * clock of its own; threads that share it have a lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/deadline.h"
#include "host/attachment_file.h"

#define FOLLOWED_NEVER INT64_MAX
#define FOLLOWED_WHY_MAX 300

enum followed_step {
	STEP_NOTHING, /* not ready yet, or unready again: what is attached stays */
	STEP_ATTACH,
	STEP_DETACH,
};

/* How the last step has ended. */
enum followed_state {
	FOLLOWED_WAITING, /* none was done, or the attachment is not ready */
	FOLLOWED_ATTACHED,
	FOLLOWED_DETACHED,
	FOLLOWED_HELD,    /* detached by hand: held.h */
	FOLLOWED_IGNORED, /* by the configuration */
	FOLLOWED_FAILED,  /* tried again at due_at */
};

struct followed {
	struct followed *next;
	char *name, *uid, *volume;
	char facts[33]; /* a hash of what a step depends on */
	bool listed;    /* told since the last list began */
	bool ready, deleting;
	bool missing; /* the last list has not had it: it is to be asked for */
	bool gone;    /* it is proven that this uid is no more */
	/* The work. */
	bool running, changed; /* changed: while it runs */
	bool tried;
	enum followed_step doing; /* while it runs */
	struct cancel cancel;     /* of an attach that runs */
	int64_t since;            /* when that began */
	int64_t due_at;           /* monotonic ns; FOLLOWED_NEVER: nothing is due */
	unsigned failures;        /* in a row */
	enum followed_state state;
	char why[FOLLOWED_WHY_MAX]; /* it is not attached, or what is wrong with it; "" */
};

struct followed_table {
	struct followed *first;
};

/* A list of all attachments begins; all of it was told: what it has not had is `missing`. */
void followed_begin(struct followed_table *t);
void followed_complete(struct followed_table *t, int64_t now);
/*
 * An attachment that there is, in this state. Another uid of a name is another attachment, and the
 * end of the one before. A step that no longer fits is cancelled.
 */
void followed_told(struct followed_table *t, const struct attachment_file *f, int64_t now);
/*
 * What an earlier watch has attached, by its record. Nothing happens when the attachment is known.
 */
void followed_remember(struct followed_table *t, const char *name, const char *uid,
                       const char *volume, int64_t now);
/* It is proven that the attachment of this uid has gone. */
void followed_gone(struct followed_table *t, const char *uid, int64_t now);

enum followed_step followed_step(const struct followed *f);
/*
 * One whose step is due and may run: no other attachment of its volume is at work, is to be
 * detached first, or has it already. NULL: none. ret_at (may be NULL): when the next one is due.
 */
struct followed *followed_due(struct followed_table *t, int64_t now, int64_t *ret_at);
/* The step begins, and runs until followed_done(); *ret_cancel lives as long. */
void followed_run(struct followed *f, int64_t now);
/*
 * The step has ended in this state; `why` says more, or is "". Of a failure the next try is due
 * after a while that grows to FOLLOWED_PAUSE_MOST_MS. True: the state or its reason is another one
 * than before, and worth a line of the log. The entry of an attachment that has gone and is
 * detached is freed.
 */
#define FOLLOWED_PAUSE_MOST_MS 30000
bool followed_done(struct followed_table *t, struct followed *f, enum followed_state state,
                   const char *why, int64_t now);
/* What is due is STEP_NOTHING: until the next change. */
void followed_rest(struct followed *f);
/* While its step runs: it was missing from a list and is there after all. */
void followed_found(struct followed *f);
/* Its step is due now, whatever was before; `why` as of followed_done(). Not while one runs. */
bool followed_again(struct followed *f, const char *why, int64_t now);
void followed_clear(struct followed_table *t); /* none runs */
