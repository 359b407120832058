/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's health service: reports whether kubelet has registered the driver. Identity.Probe does not
 * report that, since the liveness probe must not kill a driver that waits for kubelet.
 */
#pragma once

#include <stdatomic.h>

#include "rpc/rpc.h"

#define HEALTH_REGISTERED "registered" /* the service name in the request */

enum health_registration {
	/* another program registers the driver: the service name is unknown */
	HEALTH_NO_REGISTRATION = 0,
	HEALTH_NOT_REGISTERED,
	HEALTH_IS_REGISTERED,
};

struct health {
	_Atomic enum health_registration registration;
};

/* Returns the service; `health` must outlive it. Its calls are answered on the poller. */
struct rpc_service health_service(struct health *health);
/* Returns true if kubelet has registered the driver. Any thread. */
bool health_is_registered(const struct health *health);
/* A callback for registration_options; `arg` is a struct health. Any thread. */
void health_registered(void *arg, bool registered);
