/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes API: one request in, one reply (or a watch stream) out. Knows nothing of sockets:
 * http_server.c brings the requests, tests call it directly.
 *
 *   api.c        path -> target, faults, discovery
 *   api_read.c   get, list
 *   api_write.c  create, update, patch, delete
 *   watch.c      watch
 *   api_sim.c    /sim/...: the switches of the simulator
 */
#pragma once

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

/* Blocks while a fault says so. */
void api_handle(struct api_call *call, struct reply *ret);
