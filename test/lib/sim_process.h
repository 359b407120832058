/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap-sim as a child on a free port, its faults, and a Kubernetes client for it. There is one at a
 * time; it dies with this process.
 */
#pragma once

#include <sys/types.h>

#include "kube/kube.h"

#define SIM_NS "dpf"

struct sim_process {
	pid_t pid;
	int port;
	char dir[64];
	struct kube *kube;
};
extern struct sim_process sim;

/*
 * Starts $SNAP_SIM without a fabric, with nodes n1 and n2, the objects of --seed in SIM_NS, and
 * further options (NULL, or a NULL-terminated list).
 */
void sim_start(const char *const *options);
void sim_stop(void);
/* One request to /sim/...; the body of the answer, malloc'ed. */
char *sim_http(const char *method, const char *path, const char *body);
void sim_fault(const char *json);
void sim_heal(void); /* removes all faults */
/* The counts of requests since the last call, malloc'ed: {"create":{"dpuvolumes":1}}. */
char *sim_requests(void);
/* Waits until earlier requests have arrived. */
void sim_settle(void);
/* Waits until snap-sim has executed the requests of connections that their clients have closed. */
void sim_drain(void);
