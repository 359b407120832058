/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the driver's own socket. For a pod's probes, kubelet runs the binary a second time,
 * with --probe (liveness) or --probe=registered (readiness); an operator runs `log-level`.
 */
#pragma once

#include "common/err.h"

/*
 * Calls Identity.Probe on the unix socket `path`. Returns 0 if the driver answers that it is ready;
 * otherwise -1 (UNAVAILABLE), after timeout_ms at the latest. Call it in main() before any thread
 * exists, because it starts gRPC and shuts it down.
 */
int rpc_probe(const char *path, int timeout_ms, struct err *err) MUST_CHECK;
/*
 * Like rpc_probe(), but calls the health service. Returns 0 if kubelet has registered the driver.
 */
int rpc_probe_registered(const char *path, int timeout_ms, struct err *err) MUST_CHECK;

struct rpc_log_level {
	int before;       /* the verbosity before this call */
	int started_with; /* the verbosity from the driver's --v */
};
/*
 * Like rpc_probe(), but sets the verbosity of the driver's log (0 or more). Returns 0 with *ret
 * filled in.
 */
int rpc_set_log_level(const char *path, int level, int timeout_ms, struct rpc_log_level *ret,
                      struct err *err) MUST_CHECK;
