/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC client of one unix socket: one call at a time, bytes in, bytes out.
 * A client belongs to one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/deadline.h"
#include "common/err.h"

struct csi_client;

/* Connects to unix:///path, unix://relative/path or a plain path; tries again until the deadline while nobody listens
   there. */
int csi_client_new(const char *endpoint, struct deadline deadline, struct csi_client **ret,
                   struct err *err) MUST_CHECK;
void csi_client_free(struct csi_client *c); /* NULL is fine */
/* A unary call; a status other than OK is the error. *ret_out is malloc'ed. */
int csi_client_call(struct csi_client *c, const char *path, const uint8_t *in, size_t n_in,
                    int timeout_ms, uint8_t **ret_out, size_t *ret_n_out, struct err *err)
	MUST_CHECK;
