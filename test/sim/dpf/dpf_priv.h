/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the DPF part. A reconcile function looks at one object, does at most one
 * step
 * (one write) and returns in how many milliseconds to look again, or RECONCILE_IDLE: the
 * next change of the object, or of what it waits for, brings it back.
 */
#pragma once

#include "test/sim/dpf/dpf.h"
#include "test/sim/base/faults.h"
#include "test/sim/fabric/function.h"
#include "test/sim/base/options.h"
#include "test/sim/store/store.h"

#define RECONCILE_IDLE (-1)

/* The storage behind a bound volume. */
struct backing {
	char uid[37]; /* of the DPUVolume */
	char *ns, *volume, *vendor;
	uint32_t nsid;
	char uuid[37];          /* of the NVMe namespace */
	_Atomic uint64_t bytes; /* HTTP threads grow it */
	struct backing *next;
};

/* A function of a node that an attachment holds. */
struct placement {
	char uid[37]; /* of the DPUVolumeAttachment */
	char *ns, *attachment, *node, *volume;
	enum function_kind kind;
	unsigned index; /* VF number or hot-plug slot */
	bool device;    /* the fabric shows it */
	struct backing *of;
	struct placement *next;
};

/* What attachments refer to, to find those that a change concerns. */
struct reference {
	char *ns, *attachment, *volume, *node;
	struct reference *next; /* in its bucket */
};
#define REFERENCE_BUCKETS 8192

/* When a delayed step is due. */
struct mark {
	char *uid, *stage;
	int64_t due;
	struct mark *next;
};

struct work;

struct dpf {
	struct sim *sim;
	const struct options *options;
	pthread_t thread;
	int poke_fd;
	struct watcher *watcher;
	struct work *ready, **ready_end,
		*timers; /* the thread's own; so is all of the following but lists */
	struct reference *references[REFERENCE_BUCKETS]; /* by the attachment's name */
	struct mark *marks;
	uint32_t last_nsid;
	pthread_mutex_t lock; /* covers the lists of the next line: HTTP threads read them */
	struct backing *backings;
	struct placement *placements;
};

int64_t dpf_vendor(struct dpf *d, struct version *v, struct json *o);
int64_t dpf_policy(struct dpf *d, struct version *v, struct json *o);
int64_t dpf_volume(struct dpf *d, struct version *v, struct json *o);
int64_t dpf_attachment(struct dpf *d, struct version *v, struct json *o);
/* The object of that name is no longer there. */
void dpf_volume_gone(struct dpf *d, const char *ns, const char *name);
void dpf_attachment_gone(struct dpf *d, const char *ns, const char *name);

/* Stores `o` if it differs from v. Somebody was faster: nothing, its event brings us back. */
void dpf_put(struct dpf *d, struct version *v, struct json *o);
/* Adds the finalizer and stores. True when that was this step. */
bool dpf_claim(struct dpf *d, struct version *v, struct json *o, const char *finalizer);
/*
 * Milliseconds until `ms` have passed since the first call for this stage of this object; 0: they
 * have.
 */
int64_t dpf_delay(struct dpf *d, const char *uid, const char *stage, unsigned ms);
/* Looks again at... */
void dpf_enqueue(struct dpf *d, const struct resource *res, const char *ns, const char *name);
void dpf_enqueue_waiting(struct dpf *d, const char *node);
/* The first attachment that names the volume, or NULL. */
const struct reference *dpf_attached(const struct dpf *d, const char *ns, const char *volume);

struct backing *backing_find(struct dpf *d, const char *ns, const char *volume);
struct backing *backing_new(struct dpf *d, const struct json *volume, uint64_t bytes);
/* Removes it and its image. */
int backing_remove(struct dpf *d, struct backing *b, struct err *err) MUST_CHECK;
struct placement *placement_find(struct dpf *d, const char *ns, const char *attachment);
/* Takes a free function. RESOURCE_EXHAUSTED with what is in use. */
int placement_take(struct dpf *d, const struct json *attachment, struct backing *b,
                   struct placement **ret, struct err *err) MUST_CHECK;
void placement_release(struct dpf *d, struct placement *p);
/* Makes the namespace appear on, or vanish from, the node; nothing without a fabric. */
int placement_show(struct dpf *d, struct placement *p, struct err *err) MUST_CHECK;
int placement_hide(struct dpf *d, struct placement *p, struct err *err) MUST_CHECK;
/* "0000:26:00.1" or, with --short-pci-address, "26:00.1". */
void placement_pci(const struct dpf *d, const struct placement *p, char buf[16]);
/* The VPD's VU of the function (a VF: of its PF). */
void placement_vuid(const struct dpf *d, const struct placement *p, char buf[32]);
