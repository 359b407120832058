/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that a test switches on and off while snap-sim runs (POST, GET, DELETE /sim/faults).
 *
 * A fault is one of two: what happens to a request (match: verb, resource, name, times), or how DPF
 * and the fabric misbehave for an object whose name matches (`dpf`: one of fault_kinds). The
 * first one that matches wins. README.md has the list. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"

struct faults;

struct faults *faults_new(void);
struct faults *faults_free(struct faults *f);
/* Called after every change, without a lock held. */
void faults_on_change(struct faults *f, void (*fn)(void *arg), void *arg);

/* One fault or a list of them; all or nothing. INVALID_ARGUMENT names the member. */
int faults_add(struct faults *f, const struct json *spec, struct err *err) MUST_CHECK;
/* All faults, each with its id and how often it has applied; a new root. */
struct json *faults_json(struct faults *f);
/* id 0: all. Returns how many there were. */
size_t faults_remove(struct faults *f, unsigned id);

/* What is to be done to one request. All zero: nothing. */
struct request_fault {
	unsigned latency_ms;
	unsigned status;
	unsigned retry_after;
	char reason[64];
	char message[512];
	bool applied;  /* the request is carried out first: the answer is what gets lost */
	bool cut;      /* the connection ends in the middle of the answer */
	bool hang;     /* no answer until the client goes */
	bool unserved; /* as if the API group were not there */
};
/* Counts as one application. `resource` is the plural, with "/status" for the subresource. */
bool faults_request(struct faults *f, const char *verb, const char *resource, const char *name,
                    struct request_fault *ret);

enum stream_fault { STREAM_GOES_ON, STREAM_DROPPED, STREAM_EXPIRED };
/* For an open watch. */
enum stream_fault faults_stream(struct faults *f, const char *resource);

enum fault_kind {
	FAULT_VOLUME_NEVER_BOUND,
	FAULT_VOLUME_FAILURE,         /* text */
	FAULT_VOLUME_CAPACITY,        /* value: a quantity */
	FAULT_VOLUME_STUCK,           /* the finalizer stays */
	FAULT_ATTACHMENT_NEVER_READY, /* text */
	FAULT_ATTACHMENT_FAILURE,     /* text */
	FAULT_ATTACHMENT_STUCK,
	FAULT_MISSING,        /* value: a path below status */
	FAULT_LATE,           /* value: a path below status; ms */
	FAULT_PCI_ZERO_FIRST, /* ms */
	FAULT_WRONG_NSID,
	FAULT_WRONG_UUID,
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
/* Whether the kind is on for any of the names (NULLs are skipped); ret may be NULL. */
bool faults_dpf(struct faults *f, enum fault_kind kind, const char *name, const char *other,
                struct dpf_fault *ret);
/* The n-th fault (from 0) of the kind that matches: several `missing` may be on. */
bool faults_dpf_nth(struct faults *f, enum fault_kind kind, size_t n, const char *name,
                    const char *other, struct dpf_fault *ret);
