/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of the socket, for one question: does the driver that serves it live? For the
 * liveness probe of a pod, which runs the same binary beside the driver.
 */
#pragma once

#include "common/err.h"

/*
 * Calls Identity.Probe at the unix socket `path`. 0 when the driver answers that it is ready, -1
 * else, at the latest after timeout_ms. To be called from main before any thread: it starts gRPC
 * and ends it.
 */
int rpc_probe(const char *path, int timeout_ms, struct err *err) MUST_CHECK;
