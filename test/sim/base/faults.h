/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that a test switches on and off while snap-sim runs (POST, GET, DELETE /sim/faults).
 *
 * There are two sorts. A fault of requests matches verb, resource, name and a number of times, and
 * changes the answer. A fault of DPF (`dpf`: a name of fault_kind_names) makes DPF or the fabric
 * misbehave for objects whose name matches. The oldest fault that matches is applied. README.md
 * lists them. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"

struct faults;

struct faults *faults_new(void);
struct faults *faults_free(struct faults *f);
/* fn is called after every change, with no lock held. */
void faults_on_change(struct faults *f, void (*fn)(void *arg), void *arg);

/* Adds one fault or a list of them: all, or none on an error. INVALID_ARGUMENT names the member. */
int faults_add(struct faults *f, const struct json *spec, struct err *err) MUST_CHECK;
/* All faults, each with its id and the number of its applications; a new root. */
struct json *faults_json(struct faults *f);
/* Removes one, or all with id 0. Returns the number of removed faults. */
size_t faults_remove(struct faults *f, unsigned id);

/* The effect of a fault on one request. All zero: nothing. */
struct request_fault {
	unsigned latency_ms;
	unsigned status;
	unsigned retry_after;
	/* With applied: the request is executed this much later, even if the client has left. */
	unsigned late_ms;
	char reason[64];
	char message[512];
	bool applied;  /* executed anyway: only the answer is lost */
	bool cut;      /* the connection ends in the middle of the answer */
	bool closed;   /* the connection ends before the answer */
	bool hang;     /* no answer until the client leaves */
	bool unserved; /* 404, as if the API group were not installed */
	bool has_body;
	char body[512]; /* the answer, with `status` or 200, as from a proxy */
	char wrong[64]; /* a path in the true answer whose text is replaced */
};
/*
 * Whether a fault matches the request; counts it as applied. `resource` is the plural, with
 * "/status" for the subresource.
 */
bool faults_request(struct faults *f, const char *verb, const char *resource, const char *name,
                    struct request_fault *ret);

enum stream_fault { STREAM_GOES_ON, STREAM_DROPPED, STREAM_EXPIRED, STREAM_MUTE };
/* The effect of a fault on an open watch. */
enum stream_fault faults_stream(struct faults *f, const char *resource);

/* The effect of a fault on one event of a watch. */
enum event_fault {
	EVENT_AS_IT_IS,
	EVENT_LATE,    /* it and all later ones are delayed by ms */
	EVENT_DROPPED, /* it never comes */
	EVENT_TWICE,
	EVENT_BACKWARDS, /* the previous state follows it again */
	EVENT_FOREIGN,   /* the life of an earlier object of its name precedes it */
	EVENT_REPLACED_BY_ERROR,
	EVENT_REPLACED_BY_GARBAGE,
	EVENT_FAULTS
};
enum event_fault faults_event(struct faults *f, const char *resource, const char *name,
                              unsigned *ret_ms);

enum fault_kind {
	FAULT_VOLUME_NEVER_BOUND,
	FAULT_VOLUME_FAILURE,         /* text */
	FAULT_VOLUME_ERROR,           /* text */
	FAULT_VOLUME_CAPACITY,        /* value: a quantity */
	FAULT_VOLUME_STUCK,           /* the finalizer stays */
	FAULT_ATTACHMENT_NEVER_READY, /* text */
	FAULT_ATTACHMENT_FAILURE,     /* text */
	FAULT_ATTACHMENT_STUCK,
	FAULT_ATTACHMENT_MOVES,
	FAULT_ATTACHMENT_UNREADY, /* text; ms */
	FAULT_ATTACHMENT_NO_READY,
	FAULT_DPU_NOT_READY, /* text */
	FAULT_CLUSTER_UNREACHABLE,
	FAULT_MISSING,         /* value: a path below status */
	FAULT_LATE,            /* value: a path below status; ms */
	FAULT_PCI_ZERO_FIRST,  /* ms */
	FAULT_PCI_OTHER_FIRST, /* value: an address; ms */
	FAULT_WRONG_NSID,
	FAULT_WRONG_UUID,
	FAULT_WRONG_TAG,
	FAULT_TAG,          /* value: the tag */
	FAULT_DEVICE_LATE,  /* ms */
	FAULT_FOREIGN_DATA, /* text; value: offset */
	FAULT_BIND_REFUSED,
	FAULT_BIND_IGNORED,
	FAULT_KINDS
};
extern const char *const fault_kind_names[FAULT_KINDS];

struct dpf_fault {
	char text[256];
	char value[128];
	unsigned ms;
};
/* Whether a fault of this kind matches one of the two names (NULL is skipped); ret may be NULL. */
bool faults_dpf(struct faults *f, enum fault_kind kind, const char *name, const char *other,
                struct dpf_fault *ret);
/* The n-th match (from 0): several `missing` may be active at once. */
bool faults_dpf_nth(struct faults *f, enum fault_kind kind, size_t n, const char *name,
                    const char *other, struct dpf_fault *ret);
