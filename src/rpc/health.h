/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's health service: it says whether kubelet has registered the driver, which Identity.Probe
 * does not, since a driver that waits for kubelet must not be killed by the liveness probe.
 */
#pragma once

#include <stdatomic.h>

#include "rpc/rpc.h"

#define HEALTH_REGISTERED "registered" /* the name to ask for */

enum health_registration {
	HEALTH_NO_REGISTRATION = 0, /* somebody else registers the driver: the name is unknown */
	HEALTH_NOT_REGISTERED,
	HEALTH_IS_REGISTERED,
};

struct health {
	_Atomic enum health_registration registration;
};

/* The service; `health` outlives it. Answered on the poller. */
struct rpc_service health_service(struct health *health);
/* Any thread. */
bool health_is_registered(const struct health *health);
/* For registration_options; `arg` is a struct health. Any thread. */
void health_registered(void *arg, bool registered);
