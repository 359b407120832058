/* SPDX-License-Identifier: Apache-2.0 */
/* The state of DPF's controllers, which the files of this room share. */
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
	char uuid[37];          /* of the NVMe namespace */
	_Atomic uint64_t bytes; /* HTTP threads change it */
	struct backing *next;
};

/* A function of a node that an attachment holds. */
struct placement {
	char *ns, *attachment, *node, *volume;
	enum function_kind kind;
	unsigned index; /* VF number or hot-plug slot */
	bool device;    /* the fabric shows it */
	char tag[40];   /* of a virtio-fs device; "" for a namespace */
	/* Copies: the backing may be gone, when a client removed the volume's finalizer by hand. */
	uint32_t nsid;
	char uuid[37];
	struct placement *next;
};

struct reference;
#define REFERENCE_BUCKETS 8192
struct step_delay;
struct dpf_work;

struct dpf {
	struct sim *sim;
	const struct sim_options *options;
	pthread_t thread;
	int poke_fd;
	struct watcher *watcher;
	struct dpf_work *ready, **ready_end; /* from here to `lock` the thread's own */
	struct dpf_work *timers;
	struct reference *references[REFERENCE_BUCKETS]; /* hashed by the attachment's name */
	struct step_delay *delays;
	uint32_t last_nsid;
	pthread_mutex_t lock; /* for the two lists below, which HTTP threads read */
	struct backing *backings;
	struct placement *placements;
};
