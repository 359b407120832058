/* SPDX-License-Identifier: Apache-2.0 */
/* CSI's Identity service: the driver's name, version and services, in every mode. */
#pragma once

#include "csi/csi.pb-c.h"

#include "rpc/rpc.h"

#define IDENTITY_CSI_VERSION "1.13.0" /* version of the CSI specification: csi/csi.proto */

struct identity {
	const char *name; /* "csi.snap.nvidia.com" */
	const char *version;
	/* The services that GetPluginCapabilities names. */
	const Csi__V1__PluginCapability__Service__Type *services;
	size_t n_services;
	/*
	 * Returns true if the controller can expand volumes. It may block until the deadline, so
	 * GetPluginCapabilities then runs on a worker. NULL: the controller cannot.
	 */
	bool (*expands)(void *arg, struct deadline d);
	void *arg;
};

/*
 * Returns the service; `identity` must outlive it. Every method is answered on the poller, except
 * GetPluginCapabilities if it calls expands().
 */
struct rpc_service identity_service(struct identity *identity);
