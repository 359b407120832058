/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a request may be sent again. Nothing here waits: callers do.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "http/http.h"

/*
 * Milliseconds to wait before the request is sent again; -1: it is not sent again. `attempt` is the
 * number of the attempt that has just ended, from 1. A POST is repeated only when the server cannot
 * have acted on it: no connection, or an answer of 429 or 503.
 */
int kube_retry_ms(const char *method, const struct http_result *result, unsigned attempt);
/* False for the error of what stays so until a person changes something: 403, no such API group. */
bool kube_passes_by_itself(const struct err *err);
/*
 * How long the server asks to be left alone, with up to a quarter more at random, so that those
 * whom it has refused together do not come back together. At most 30 s of it count: what is asked
 * for by mistake must not stop the driver for an hour.
 */
int kube_asked_ms(const struct http_result *result);
/* first_ms, doubled with each failure after the first up to most_ms, and +/- 25 % at random. */
int kube_backoff_ms(unsigned failures, int first_ms, int most_ms);
