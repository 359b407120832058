/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr, one write(2) each, text or JSON.
 *
 * A line is a message and key=value pairs. Values are quoted when they need it.
 * Code below the RPC layer logs only what it cannot return to a caller (a watch
 * that reconnects, an environment variable that is ignored). Any thread;
 * log_setup() and log_redirect() before other threads start.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/kv.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/*
 * verbosity: klog's -v. 0 = errors, warnings and changes; 2 = every call that is not a probe (the
 * manifests' value); 4 = request fields; 5 and above = debug.
 */
void log_setup(int verbosity, bool json);
int log_verbosity(void);

/* Pairs are const char * key, const char * value ..., ended by NULL; a NULL value is left out. */
void log_event(enum log_level level, const char *msg, ...) __attribute__((sentinel));
/* The same with the pairs in an array. */
void log_pairs(enum log_level level, const char *msg, const struct kv *pairs, size_t n);
/* A plain formatted message. */
void log_msg(enum log_level level, const char *fmt, ...) PRINTF_(2, 3);
/* The same for what repeats: each place that calls it logs at most once in `seconds` seconds. */
#define log_limited(level, seconds, ...)               \
	do {                                           \
		static _Atomic long long last_;        \
		if (log_may(&last_, (seconds)))        \
			log_msg((level), __VA_ARGS__); \
	} while (0)
bool log_may(_Atomic long long *last, int seconds); /* for log_limited() only */
/* Tests: hands each finished line (no newline) to fn instead of stderr; NULL restores. */
void log_redirect(void (*fn)(void *arg, const char *line), void *arg);
