/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes API: takes one request, returns one reply or a watch stream. Independent of
 * sockets: server/ passes the requests, and tests call it directly.
 *
 *   api.c            path -> resource and verb, faults, counting
 *   api_discovery.c  /version, /api, /apis
 *   api_read.c       get, list
 *   api_write.c      create, update, patch, delete
 *   watch.c          watch
 *   seed.c           the first objects
 */
#pragma once

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

/* Fills *ret. Blocks as long as a fault requires. */
void api_handle(struct api_call *call, struct reply *ret);
