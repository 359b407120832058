/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr, one write(2) each, text or JSON.
 *
 * A line is a message and key=value pairs. Values are quoted when they need it; in JSON those that
 * are numbers are not. Code below the RPC layer logs only what it cannot return to a caller (a
 * watch that reconnects, an environment variable that is ignored). Any thread; log_setup() and
 * log_redirect() before other threads start.
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
 * At run time, any thread: the next verbosity at which more is logged (2, 4, 5), or that of
 * log_setup() again. Returns the new one.
 */
int log_more(void);
int log_as_set(void);
/*
 * Servers call it after log_setup(): a thread then writes the lines, and no caller waits for
 * stderr. Lines that do not fit in the queue (256 KiB) are dropped and counted; a log line reports
 * their number. log_flush() is for the end of the process and before _exit(): it waits half a
 * second at most and is async-signal-safe.
 */
int log_start(struct err *err) MUST_CHECK;
void log_flush(void);
/* Each line of this thread has call=id from now on; 0: none. */
void log_call(uint64_t id);

/* Pairs are const char * key, const char * value ..., ended by NULL; a NULL value is left out. */
void log_event(enum log_level level, const char *msg, ...) __attribute__((sentinel));
/* `number`: the value is the text of a JSON number or boolean, and is one in a JSON line. */
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
/* The same with the pairs in an array; some of them may be numbers. */
void log_pairs(enum log_level level, const char *msg, const struct log_pair *pairs, size_t n);
/* The milliseconds since `since` (monotonic_ns()) as the value of a pair "ms"; returns buf. */
const char *log_ms(int64_t since, char buf[32]);
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
