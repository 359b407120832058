/* SPDX-License-Identifier: Apache-2.0 */
/* CSI's Identity service: the driver's name, version and services, in every mode. */
#pragma once

#include "csi/csi.pb-c.h"

#include "rpc/rpc.h"

struct identity {
	const char *name; /* "csi.snap.nvidia.com" */
	const char *version;
	/* The services that GetPluginCapabilities names. */
	const Csi__V1__PluginCapability__Service__Type *services;
	size_t n_services;
	/* UNKNOWN (0): volumes cannot be expanded. Otherwise the controller has EXPAND_VOLUME. */
	Csi__V1__PluginCapability__VolumeExpansion__Type expansion;
};

/* The service; `identity` outlives it. Every method is answered on the poller. */
struct rpc_service identity_service(struct identity *identity);
