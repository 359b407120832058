/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What DPF's controllers know, as the files of this room share it.
 */
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
	_Atomic uint64_t bytes; /* HTTP threads grow it */
	struct backing *next;
};

/* A function of a node that an attachment holds. */
struct placement {
	char *ns, *attachment, *node, *volume;
	enum function_kind kind;
	unsigned index; /* VF number or hot-plug slot */
	bool device;    /* the fabric shows it */
	uint32_t nsid;  /* of the backing, which may be gone by force; so is the uuid */
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
	struct dpf_work *ready, **ready_end; /* the thread's own; so are the next five */
	struct dpf_work *timers;
	struct reference *references[REFERENCE_BUCKETS]; /* by the attachment's name */
	struct step_delay *delays;
	uint32_t last_nsid;
	pthread_mutex_t lock; /* covers the lists of the next line: HTTP threads read them */
	struct backing *backings;
	struct placement *placements;
};
