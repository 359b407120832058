/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `host watch` share; only they include it. */
#pragma once

#include <pthread.h>

#include "common/running.h"
#include "host/followed.h"
#include "host/host_node.h"
#include "host/watch_config.h"
#include "kube/kube_follow.h"

struct watch {
	const struct host_args *a;
	struct watch_config config;
	struct kube *kube;
	struct running *running; /* the steps that run, for the end of the process */
	/* For looks at what is attached: one, so that what hangs is known. */
	struct host_node looks;

	struct cancel stopping; /* of what the thread of looks asks */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	struct followed_table table;
	struct kube_follow *follow; /* NULL: not yet */
	unsigned steps;             /* that run */
	bool heard;                 /* something was told since the loop has looked */
	bool complete;              /* all attachments were told once */
	bool stop;
	char refused[FOLLOWED_WHY_MAX]; /* why the API server does not let us follow; "" */
};
