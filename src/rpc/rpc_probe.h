/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the driver's own socket, for the probes of a pod: kubelet runs the binary a second
 * time, with --probe (liveness) or --probe=registered (readiness).
 */
#pragma once

#include "common/err.h"

/*
 * Calls Identity.Probe at the unix socket `path`. 0: the driver answers that it is ready. -1:
 * UNAVAILABLE, after timeout_ms at the latest. Called by main() before any thread: it starts gRPC
 * and ends it.
 */
int rpc_probe(const char *path, int timeout_ms, struct err *err) MUST_CHECK;
/* The same for the health service. 0: kubelet has registered the driver. */
int rpc_probe_registered(const char *path, int timeout_ms, struct err *err) MUST_CHECK;
