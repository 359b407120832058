/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `host watch` share; only they include it. */
#pragma once

#include <pthread.h>

#include "common/running.h"
#include "host/tracked.h"
#include "host/host_node.h"
#include "host/watch_config.h"
#include "kube/kube_follow.h"

struct watch {
	const struct host_args *a;
	struct watch_config config;
	struct kube *kube;
	struct running *running;    /* the steps that run, for the end of the process */
	struct host_node scan_node; /* of all scans: it knows which probes hang */
	struct cancel stopping;     /* cancels the requests of the scan thread */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	struct tracked_table table;
	struct kube_follow *follow; /* NULL: not yet */
	unsigned steps;             /* that run */
	bool notified;              /* an event since the last pass of the loop */
	bool complete;              /* a list of all attachments has ended once */
	bool stop;
	char refused[TRACKED_WHY_MAX]; /* why the API server refuses the watch; "" */
};
