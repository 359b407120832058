/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a request may be sent again, and how many may be sent per second.
 * Nothing here waits: callers do.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/http.h"

/*
 * Milliseconds to wait before the request is sent again, -1: not again. `attempt` counts from 1,
 * the one that has just ended. A POST is repeated only when the server cannot have acted on it: no
 * connection, or an answer of 429 or 503.
 */
int kube_retry_ms(const char *method, const struct http_result *result, unsigned attempt);
/*
 * False for an answer that stays the same until a person changes something: 403, no such API group.
 * For a watch, for which a 2xx that it cannot use and a 410 are failures too.
 */
bool kube_passes_by_itself(const struct http_result *result);
/* Doubles from first_ms to most_ms with `failures` (from 1), a quarter more or less at random. */
int kube_backoff_ms(unsigned failures, int first_ms, int most_ms);

/* A token bucket. */
struct kube_limiter {
	pthread_mutex_t lock;
	double qps; /* 0: unlimited */
	double burst;
	double tokens; /* under lock; negative: reserved by callers that wait */
	int64_t at;
};

void kube_limiter_init(struct kube_limiter *l, double qps, int burst);
void kube_limiter_destroy(struct kube_limiter *l);
/* Takes a place in the queue: nanoseconds from now until the request may go. */
int64_t kube_limiter_take(struct kube_limiter *l, int64_t now);
/* Gives a place back that was not used. */
void kube_limiter_return(struct kube_limiter *l);
