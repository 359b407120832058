/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attachments of this host that `host watch` reconciles: the last known state of each, and the
 * time at which its next step is due. It stores a hash of each object, not the object. Does no I/O
 * and has no clock of its own. The caller must hold a lock if threads share a table.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/deadline.h"
#include "host/attachment_file.h"

#define TRACKED_NEVER INT64_MAX
#define TRACKED_WHY_MAX 300

enum tracked_step {
	STEP_NOTHING, /* the attachment is not ready (any more); an attached volume stays */
	STEP_ATTACH,
	STEP_DETACH,
};

/* The result of the last step. */
enum tracked_state {
	TRACKED_WAITING, /* no step has run, or the attachment is not ready */
	TRACKED_ATTACHED,
	TRACKED_DETACHED,
	TRACKED_MANUAL_DETACH, /* manual_detach.h */
	TRACKED_IGNORED,       /* ignored according to the configuration */
	TRACKED_FAILED,        /* will be retried at due_at */
};

struct tracked {
	struct tracked *next;
	char *name, *uid, *volume;
	char facts[33]; /* a hash of the object's fields that a step depends on */
	bool listed;    /* has been in the list since tracked_list_begin() */
	bool ready, deleting;
	bool missing; /* absent from the last list: re-read the object before the detach */
	bool gone;    /* the API server has no object with this UID */
	/* The step. */
	bool running, changed; /* changed: the object has changed while the step runs */
	bool tried;
	enum tracked_step doing; /* the running step */
	struct cancel cancel;    /* cancels a running attach */
	int64_t since;           /* when the running step began */
	int64_t due_at;          /* monotonic ns; TRACKED_NEVER: nothing is due */
	unsigned failures;       /* consecutive failures */
	enum tracked_state state;
	/* why the volume is not attached, or what is wrong with it; "" */
	char why[TRACKED_WHY_MAX];
};

struct tracked_table {
	struct tracked *first;
};

/*
 * Begin a complete list, before its first attachment, and end it, after its last. Attachments that
 * are not in the list become `missing`.
 */
void tracked_list_begin(struct tracked_table *t);
void tracked_list_end(struct tracked_table *t, int64_t now);
/*
 * Records that the API server has the attachment in this state. An object with the same name and
 * another UID replaces the earlier object, which is then recorded as deleted. Cancels a running
 * step that no longer applies.
 */
void tracked_update(struct tracked_table *t, const struct attachment_file *f, int64_t now);
/*
 * Adds the attachment of a state file of an earlier `host watch` process, and marks it as missing.
 * Does nothing if the table has the attachment.
 */
void tracked_restore(struct tracked_table *t, const char *name, const char *uid, const char *volume,
                     int64_t now);
/* Records that the API server has no attachment with this UID. */
void tracked_gone(struct tracked_table *t, const char *uid, int64_t now);

enum tracked_step tracked_step(const struct tracked *f);
/*
 * Returns an entry whose step is due and may run: no other attachment of its volume runs a step,
 * must be detached first, or is attached. Returns NULL if there is no such entry. *ret_at (may be
 * NULL): the time of the next step, in monotonic ns.
 */
struct tracked *tracked_due(struct tracked_table *t, int64_t now, int64_t *ret_at);
/* Records that the step begins. It runs until tracked_done(); f->cancel is valid until then. */
void tracked_start(struct tracked *f, int64_t now);
/*
 * Records that the step has ended in this state; `why` is the reason, or "". A failed step is
 * retried with a back-off of at most TRACKED_PAUSE_MOST_MS. Frees the entry of an attachment that
 * is gone and detached. Returns true if the state or its reason differs from the previous one and
 * must be logged.
 */
#define TRACKED_PAUSE_MOST_MS 30000
bool tracked_done(struct tracked_table *t, struct tracked *f, enum tracked_state state,
                  const char *why, int64_t now);
/* Records that the due step was STEP_NOTHING, so nothing is due until the next change. */
void tracked_idle(struct tracked *f);
/*
 * Called while a detach of a missing attachment runs: records that the API server has the
 * attachment.
 */
void tracked_found(struct tracked *f);
/*
 * Makes the step due now. `why` and the result are as for tracked_done(). Does nothing while a step
 * runs.
 */
bool tracked_retry(struct tracked *f, const char *why, int64_t now);
void tracked_clear(struct tracked_table *t); /* no step may be running */
