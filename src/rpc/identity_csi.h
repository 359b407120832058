/* SPDX-License-Identifier: Apache-2.0 */
/* CSI's Identity service: the driver's name, version and services, in every mode. */
#pragma once

#include "csi/csi.pb-c.h"

#include "rpc/rpc.h"

#define IDENTITY_CSI_VERSION "1.13.0" /* of the interface: csi/csi.proto */

struct identity {
	const char *name; /* "csi.snap.nvidia.com" */
	const char *version;
	/* The services that GetPluginCapabilities names. */
	const Csi__V1__PluginCapability__Service__Type *services;
	size_t n_services;
	/*
	 * Can the controller expand volumes? It may block until the deadline: GetPluginCapabilities
	 * has a thread then. NULL: no.
	 */
	bool (*expands)(void *arg, struct deadline d);
	void *arg;
};

/*
 * The service; `identity` outlives it. Every method is answered on the poller, except for the one
 * that asks expands().
 */
struct rpc_service identity_service(struct identity *identity);
