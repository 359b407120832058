/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 in front of route_request(): one thread for each connection. */
#pragma once

#include "common/err.h"
#include "test/sim/base/sim.h"

struct http_server;
/* Listens and serves. The error names the address. */
int http_server_new(struct sim *sim, struct http_server **ret, struct err *err) MUST_CHECK;
unsigned http_server_port(const struct http_server *s);
/* Ends every connection and returns NULL; sim_stop() must have been called. */
struct http_server *http_server_free(struct http_server *s);
