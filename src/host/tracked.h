/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attachments of this host that `host watch` reconciles: the last known state of each, and the
 * time at which its next step is due. It stores a hash of each object, not the object. No I/O and
 * no clock of its own; the caller has a lock where threads share a table.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/deadline.h"
#include "host/attachment_file.h"

#define TRACKED_NEVER INT64_MAX
#define TRACKED_WHY_MAX 300

enum tracked_step {
	STEP_NOTHING, /* not ready yet, or unready again: what is attached stays */
	STEP_ATTACH,
	STEP_DETACH,
};

/* The result of the last step. */
enum tracked_state {
	TRACKED_WAITING, /* no step has run, or the attachment is not ready */
	TRACKED_ATTACHED,
	TRACKED_DETACHED,
	TRACKED_MANUAL_DETACH, /* manual_detach.h */
	TRACKED_IGNORED,       /* by the configuration */
	TRACKED_FAILED,        /* tried again at due_at */
};

struct tracked {
	struct tracked *next;
	char *name, *uid, *volume;
	char facts[33]; /* a hash of what a step depends on */
	bool listed;    /* reported since the last list began */
	bool ready, deleting;
	bool missing; /* absent from the last list: read it before the detach */
	bool gone;    /* the API server has no object of this uid */
	/* The work. */
	bool running, changed; /* changed: while it runs */
	bool tried;
	enum tracked_step doing; /* while it runs */
	struct cancel cancel;    /* of an attach that runs */
	int64_t since;           /* when that began */
	int64_t due_at;          /* monotonic ns; TRACKED_NEVER: nothing is due */
	unsigned failures;       /* in a row */
	enum tracked_state state;
	char why[TRACKED_WHY_MAX]; /* it is not attached, or what is wrong with it; "" */
};

struct tracked_table {
	struct tracked *first;
};

/* A list of all attachments begins, and ends: attachments that were not in it are `missing`. */
void tracked_list_begin(struct tracked_table *t);
void tracked_list_end(struct tracked_table *t, int64_t now);
/*
 * The API server has the attachment in this state. An object with the same name and another uid
 * replaces the earlier one, which is then gone. Cancels a running step that no longer applies.
 */
void tracked_update(struct tracked_table *t, const struct attachment_file *f, int64_t now);
/*
 * Adds the attachment of a state file that an earlier watch has written, as missing. No effect when
 * the table has it.
 */
void tracked_restore(struct tracked_table *t, const char *name, const char *uid, const char *volume,
                     int64_t now);
/* The API server has no attachment of this uid. */
void tracked_gone(struct tracked_table *t, const char *uid, int64_t now);

enum tracked_step tracked_step(const struct tracked *f);
/*
 * An entry whose step is due and may run: no other attachment of its volume runs a step, has to be
 * detached first, or is attached. NULL: none. *ret_at (may be NULL): the time of the next step,
 * monotonic ns.
 */
struct tracked *tracked_due(struct tracked_table *t, int64_t now, int64_t *ret_at);
/* The step begins. It runs until tracked_done(); f->cancel is valid until then. */
void tracked_start(struct tracked *f, int64_t now);
/*
 * The step has ended in this state; `why` is its reason, or "". A failed step is retried with a
 * back-off of at most TRACKED_PAUSE_MOST_MS. Frees the entry of an attachment that is gone and
 * detached. True: the state or its reason differs from the last one and has to be logged.
 */
#define TRACKED_PAUSE_MOST_MS 30000
bool tracked_done(struct tracked_table *t, struct tracked *f, enum tracked_state state,
                  const char *why, int64_t now);
/* The due step was STEP_NOTHING: nothing is due until the next change. */
void tracked_idle(struct tracked *f);
/* While a detach of a missing attachment runs: the API server has the attachment. */
void tracked_found(struct tracked *f);
/* Makes the step due now. `why` and result as of tracked_done(). No effect while a step runs. */
bool tracked_retry(struct tracked *f, const char *why, int64_t now);
void tracked_clear(struct tracked_table *t); /* none runs */
