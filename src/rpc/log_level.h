/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own RPC service: sets the verbosity of the log, for `snap-csi-plugin log-level`.
 * Clients of the CSI socket may call it.
 */
#pragma once

#include "rpc/rpc.h"

/*
 * Returns the service. Its calls are answered on the poller. It keeps no state, because the
 * verbosity is that of common/log.h.
 */
struct rpc_service log_level_service(void);
