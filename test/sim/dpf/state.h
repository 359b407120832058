/* SPDX-License-Identifier: Apache-2.0 */
/* The state of DPF's controllers, shared by the files of this module. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "test/sim/base/faults.h"
#include "test/sim/base/options.h"
#include "test/sim/base/sim.h"
#include "test/sim/fabric/function.h"
#include "test/sim/store/store.h"

/* The storage behind a bound volume. */
struct backing {
	char *ns, *volume, *vendor;
	uint32_t nsid;
	bool key_value;         /* a key/value namespace, by a parameter of the volume */
	char uuid[37];          /* of the PersistentVolume */
	unsigned removal;       /* how many objects of the DPU cluster are being removed */
	_Atomic uint64_t bytes; /* HTTP threads change it */
	struct backing *next;
};

/* A function of a node that an attachment holds. */
struct placement {
	char *ns, *attachment, *node, *volume;
	enum function_kind kind;
	unsigned index; /* VF number or hot-plug slot */
	bool device;    /* the fabric shows it */
	bool moves;     /* to another function, which the fabric does not show yet */
	unsigned removal;
	char tag[40]; /* of a virtio-fs device; "" for a namespace */
	/*
	 * A copy: the backing may be removed, when a client removed the volume's finalizer by hand.
	 */
	uint32_t nsid;
	bool key_value;
	/* of the NVMe namespace, generated for this attachment; key/value: an NGUID, no dashes */
	char uuid[37];
	char name[24]; /* of the device on the DPU */
	struct placement *next;
};

struct reference;
#define REFERENCE_BUCKETS 8192
#define QUEUE_BUCKETS 8192
struct step_delay;
struct dpf_work;

struct dpf {
	struct sim *sim;
	const struct sim_options *options;
	pthread_t thread;
	int poke_fd;
	struct watcher *watcher;
	/*
	 * From here to `lock` owned by the thread. Attachments have their own queue, the last one.
	 */
	struct dpf_work *ready[2], **ready_end[2];
	struct dpf_work *queued[QUEUE_BUCKETS]; /* the members of `ready`, hashed by the name */
	struct dpf_work *timers;
	struct reference *references[REFERENCE_BUCKETS]; /* hashed by the attachment's name */
	struct step_delay *delays;
	double tokens; /* writes that --dpf-rate permits now */
	int64_t tokens_at;
	uint32_t last_nsid;
	pthread_mutex_t lock; /* for the two lists below, which HTTP threads read */
	struct backing *backings;
	struct placement *placements;
};
