/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/kube in memory: the functions of kube.h over a list of objects in this process, with a script
 * of DPF's next actions. It has no clock: a wait whose script has ended is at its deadline. It is
 * linked with the tests of this folder instead of src/kube.
 */
#pragma once

#include "kube/kube.h"
#include "kube/kube_follow.h"

#define FAKE_NS "dpf"
/* prefix of all uids, followed by four digits */
#define FAKE_UID "5a7e0f3c-91d2-4b68-8c0d-01234567"
#define FAKE_MAX 64

struct fake_object {
	struct json *tree;
	char plural[32], name[254];
	int version; /* of the last change */
	bool gone;
};

struct fake_step {
	char plural[32], name[254];
	struct json *patch; /* NULL: the object is deleted */
};

struct fake_refusal {
	const char *verb, *plural;
	enum err_code code;
	const char *text;
	int skip; /* requests that pass before */
};

/* The follower of a collection: it is notified at once, on the thread of the change. */
struct fake_follower {
	char plural[32]; /* "": no follower */
	kube_follow_fn *fn;
	void *arg;
	bool quiet; /* the watch brings nothing */
	/* The last event of its start; KUBE_FOLLOW_COMPLETE unless changed. */
	enum kube_follow_event start;
	int64_t closed_ms; /* for how long no stream has been open */
};

/* The whole state; fake_reset() empties it. */
struct kube_memory {
	struct fake_object objects[FAKE_MAX];
	size_t n_objects;
	struct fake_step steps[FAKE_MAX];
	size_t n_steps, next_step;
	struct fake_refusal refusals[8];
	size_t n_refusals;
	struct json *on_create;       /* patch right after a POST */
	const char *admission;        /* patch to the object of a POST, before its answer; JSON */
	const char *before_create[2]; /* attachments that other clients create just before a POST */
	bool hold;                    /* finalizers: a DELETE only marks the object */
	bool comes_and_goes;          /* objects exist for each POST, not for each GET */
	/* the number of POSTs that are executed, and whose answer is lost */
	int lost_creates;
	const char *foreign; /* an event of this object comes first, once; JSON */
	bool no_group;       /* the API server does not know DPF's API group */
	bool dpus;           /* the API server serves DPUs */
	bool may_come;       /* kube_may_come() of each object */
	bool may_change;     /* kube_may_change() of each object */
	/* the first wait returns "does not exist" even if it is not true */
	bool stale_gone;
	void (*during_list)(void); /* actions of other clients during a list of all objects */
	void (*during_get)(void);  /* actions of other clients during a GET */
	/* contents of the API server's cache for all objects; JSON, "": empty */
	const char *cached;
	const char *gone_before_delete; /* this object is deleted just before its DELETE */
	const char *before_delete;      /* a patch just before the next DELETE of a state; JSON */
	bool never_as_it_was;    /* objects have always changed before the DELETE of a state */
	bool expired;            /* the server no longer knows any page token */
	enum err_code end;       /* the error of a wait without further changes */
	const char *watch_error; /* why there was no watch; NULL: it worked */
	/* A patch just before the next PATCH, which then conflicts; JSON. */
	const char *before_patch;
	bool lost_patch;    /* the next PATCH is executed, and answered as a conflict */
	const char *schema; /* result of kube_schema(); NULL: it cannot be read */
	int version, uid;
	int patches, schemas; /* requests */
	int event_lists;      /* lists by a field */
	int dpu_lists;        /* lists of DPUs; not in `lists` */
	int creates, gets, lists, listed, deletes, waits_open;
	int news; /* calls of kube_wait_event(), which never returns an event */
	struct fake_follower follower;
};
extern struct kube_memory fake;

void fake_reset(void);
struct json *fake_json(const char *text);                            /* must be JSON; a new root */
struct fake_object *fake_find(const char *plural, const char *name); /* NULL: it does not exist */
/* Adds a copy of the object, with a uid and a generation as set by the server. */
struct fake_object *fake_add(const char *plural, const struct json *tree);
void fake_put(const char *plural, const char *text); /* the same with JSON as text */
/* Merges the patch into the object at once. */
void fake_change_text(const char *plural, const char *name, const char *patch);
/*
 * Adds a step to the script. When a call waits and has seen all changes, the next step happens: the
 * patch is merged into the object, or with NULL the object is removed.
 */
void fake_then(const char *plural, const char *name, const char *patch);
/* Passes an event about an object to the follower. */
void fake_tell(enum kube_follow_event news, const struct json *tree);
bool fake_run_step(void); /* runs the next step now; false: there are no more */
/* Each such request fails: verb "get", "create", "patch", "delete", "list" or "watch". */
void fake_refuse(const char *verb, const char *plural, enum err_code code, const char *text);
/* The same, after the first `skip` of them have succeeded. */
void fake_refuse_after(int skip, const char *verb, const char *plural, enum err_code code,
                       const char *text);
