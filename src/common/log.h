/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr, one write(2) each, text or JSON.
 *
 * A line is a message and key=value pairs. Values are quoted when they need it; numbers in JSON are
 * not. Code below the RPC layer logs only what it cannot return to a caller (a watch that
 * reconnects, an environment variable that is ignored). Any thread; log_setup() and log_redirect()
 * before other threads start.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/*
 * verbosity: klog's -v. 0 = errors, warnings and changes; 2 = every call that is not a probe (the
 * manifests' value); 4 = request fields; 5 and above = debug.
 */
void log_setup(int verbosity, bool json);
int log_verbosity(void);
/*
 * At run time, any thread: log_more() switches to the next verbosity at which more is logged (2, 4,
 * 5), log_as_set() back to the verbosity of log_setup(). Both return the new verbosity.
 */
int log_more(void);
int log_as_set(void);
/* Sets any verbosity. Returns the previous one. */
int log_set(int verbosity);
/* Returns the verbosity of log_setup(). */
int log_verbosity_set(void);
/*
 * Starts a thread that writes the lines, so that no caller waits for stderr. Servers call it after
 * log_setup(). Lines that do not fit in the queue (256 KiB) are dropped and counted; a log line
 * reports their number. Call log_flush() at the end of the process and before _exit(): it waits at
 * most half a second and is async-signal-safe.
 */
int log_start(struct err *err) MUST_CHECK;
void log_flush(void);
/* Adds call=id to each later line of this thread; 0: no longer. */
void log_call(uint64_t id);

/* Pairs are const char * key, const char * value ..., ended by NULL; a NULL value is left out. */
void log_event(enum log_level level, const char *msg, ...) __attribute__((sentinel));
/* `number`: the value is a JSON number or boolean, and is not quoted in a JSON line. */
struct log_pair {
	const char *key, *value;
	bool number;
};
static inline struct log_pair log_text(const char *key, const char *value)
{
	return (struct log_pair) { .key = key, .value = value };
}
static inline struct log_pair log_number(const char *key, const char *value)
{
	return (struct log_pair) { .key = key, .value = value, .number = true };
}
/* Like log_event(), but with the pairs in an array; some of the values may be numbers. */
void log_pairs(enum log_level level, const char *msg, const struct log_pair *pairs, size_t n);
/*
 * Writes the milliseconds since `since` (monotonic_ns()) to buf, as the value of a pair "ms";
 * returns buf.
 */
const char *log_ms(int64_t since, char buf[32]);
/* Logs a formatted message without pairs. */
void log_msg(enum log_level level, const char *fmt, ...) PRINTF_(2, 3);
/*
 * Like log_msg(), but for repeated events: each place in the code logs at most once in `seconds`
 * seconds.
 */
#define log_limited(level, seconds, ...)               \
	do {                                           \
		static _Atomic long long last_;        \
		if (log_may(&last_, (seconds)))        \
			log_msg((level), __VA_ARGS__); \
	} while (0)
bool log_may(_Atomic long long *last, int seconds); /* for log_limited() only */
/*
 * For tests: passes each complete line (without newline) to fn instead of stderr; NULL ends this.
 */
void log_redirect(void (*fn)(void *arg, const char *line), void *arg);
