/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for repeating a request. These functions do not wait; their callers do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "http/http.h"

/*
 * Returns the milliseconds to wait before the request is repeated, or -1 if it must not be
 * repeated. `attempt` is the number of the attempt that has just ended, from 1. A POST is repeated
 * only if the server cannot have executed it: no connection, or an answer of 429 or 503.
 */
int kube_retry_ms(const char *method, const struct http_result *result, unsigned attempt);
/*
 * Returns false for an error that lasts until a person changes something: 403, no such API group.
 */
bool kube_passes_by_itself(const struct err *err);
/*
 * Returns the pause that the server requests, in ms, plus up to a quarter at random, so that
 * clients that were refused together do not return together. A requested pause is cut to 30 s, so
 * that a mistaken value does not stop the driver for an hour.
 */
int kube_asked_ms(const struct http_result *result);
/*
 * Returns the pause in ms: first_ms, doubled with each failure after the first up to most_ms,
 * varied at random by +/- 25 %.
 */
int kube_backoff_ms(unsigned failures, int first_ms, int most_ms);
