/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: text in the style of klog (severity letter, time, message, key="value") or JSON.
 * log_queue writes them. All settings except the verbosity are written before threads start and
 * only read afterwards.
 */
#include "common/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log_queue.h"
#include "common/mem.h"
#include "common/str.h"

#define LINE_MAX_BYTES 8192 /* without the newline */
#define JSON_END "}"
#define CALL_BYTES 32 /* for the call's number, with its key */

static _Atomic int verbosity_;
static int verbosity_set;
static _Thread_local uint64_t call_;
static bool json_;
static void (*redirect_)(void *arg, const char *line);
static void *redirect_arg_;

static const char level_letters[] = "EWID";
static const char *const level_names[] = { "error", "warning", "info", "debug" };

void log_setup(int verbosity, bool json)
{
	verbosity_ = verbosity_set = verbosity;
	json_ = json;
}

int log_verbosity(void)
{
	return verbosity_;
}

int log_more(void)
{
	static const int steps[] = { 2, 4, 5 };
	int now = verbosity_;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (now < steps[i]) {
			verbosity_ = steps[i];
			return steps[i];
		}
	return now;
}

int log_as_set(void)
{
	int set = verbosity_set;

	verbosity_ = set;
	return set;
}

int log_set(int verbosity)
{
	return atomic_exchange(&verbosity_, verbosity);
}

int log_verbosity_set(void)
{
	return verbosity_set;
}

void log_call(uint64_t id)
{
	call_ = id;
}

void log_redirect(void (*fn)(void *arg, const char *line), void *arg)
{
	redirect_ = fn;
	redirect_arg_ = arg;
}

bool log_may(_Atomic long long *last, int seconds)
{
	long long now = monotonic_ns(), before = *last;

	if (before && now - before < seconds * 1000000000LL)
		return false;
	return __atomic_compare_exchange_n((long long *)last, &before, now, false, __ATOMIC_RELAXED,
	                                   __ATOMIC_RELAXED);
}

/* Returns true if the value may appear in a text line without quotes. */
static bool plain(const char *s)
{
	return *s && s[strcspn(s, " \t\n\"\\={}")] == '\0' && is_shown_as_it_is(s);
}

static void log_add_pair(struct str *line, const char *key, const char *value, bool number)
{
	if (json_ && number) {
		str_addf(line, ",\"%s\":%s", key, value);
	} else if (json_) {
		str_addf(line, ",\"%s\":\"", key);
		str_add_quoted(line, value);
		str_add(line, "\"");
	} else if (plain(value)) {
		str_addf(line, " %s=%s", key, value);
	} else {
		str_addf(line, " %s=\"", key);
		str_add_quoted(line, value);
		str_add(line, "\"");
	}
}

/* Truncates the line to its first n bytes. */
static void take_back(struct str *line, size_t n)
{
	line->len = n;
	line->ptr[n] = '\0';
	line->cut = false;
}

/* In JSON, omits a pair that does not fit, so that the line stays valid JSON. */
static void add_pair_if_it_fits(struct str *line, const char *key, const char *value, bool number)
{
	size_t before = line->len;

	log_add_pair(line, key, value, number);
	if (json_ && line->cut)
		take_back(line, before);
}

/* In JSON, adds as much of the message's beginning as fits, including the closing quote. */
static void add_json_message(struct str *line, const char *msg)
{
	size_t before = line->len;

	for (size_t n = strnlen(msg, line->max);; n -= n / 8 + 1) {
		char *begin AUTO(free) = xstrndup(msg, n);

		str_add_quoted(line, begin);
		if (str_add(line, "\"") && !line->cut)
			return;
		take_back(line, before);
	}
}

static void log_add_head(struct str *line, enum log_level level, const char *msg)
{
	struct timespec now;
	struct tm tm;
	char when[32];

	assert((size_t)level < ARRAY_LEN(level_names));
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	if (json_)
		str_addf(line, "{\"ts\":\"%s.%06ldZ\",\"level\":\"%s\",\"msg\":\"", when,
		         now.tv_nsec / 1000, level_names[level]);
	else
		str_addf(line, "%c %s.%06ldZ ", level_letters[level], when, now.tv_nsec / 1000);
	if (json_)
		add_json_message(line, msg);
	else
		str_add_quoted(line, msg);
}

/* Returns the space for all parts of the line except those that emit() adds. */
static size_t line_room(void)
{
	return LINE_MAX_BYTES - (json_ ? strlen(JSON_END) : 0) - (call_ ? CALL_BYTES : 0);
}

static void add_call(struct str *line)
{
	char id[CALL_BYTES];

	if (!call_)
		return;
	snprintf(id, sizeof(id), "%" PRIu64, call_);
	log_add_pair(line, "call", id, true);
}

static void emit(struct str *line)
{
	line->max = LINE_MAX_BYTES + 1;
	add_call(line);
	if (json_)
		str_add(line, JSON_END);
	if (redirect_) {
		redirect_(redirect_arg_, line->ptr);
		return;
	}
	str_add(line, "\n");
	log_queue_write(line->ptr, line->len);
}

static char *dropped_line(uint64_t lines)
{
	struct str line AUTO(str_clear) = STR_INIT(LINE_MAX_BYTES + 1);
	char n[32];

	snprintf(n, sizeof(n), "%" PRIu64, lines);
	log_add_head(&line, LOG_WARNING, "log lines were dropped: stderr was not read");
	log_add_pair(&line, "lines", n, true);
	str_add(&line, json_ ? JSON_END "\n" : "\n");
	return str_take(&line);
}

int log_start(struct err *err)
{
	return log_queue_start(dropped_line, err);
}

void log_flush(void)
{
	log_queue_flush();
}

void log_pairs(enum log_level level, const char *msg, const struct log_pair *pairs, size_t n)
{
	struct str line AUTO(str_clear) = STR_INIT(line_room());

	if (level == LOG_DEBUG && verbosity_ < 5)
		return;
	log_add_head(&line, level, msg);
	for (size_t i = 0; i < n; i++)
		if (pairs[i].value)
			add_pair_if_it_fits(&line, pairs[i].key, pairs[i].value, pairs[i].number);
	emit(&line);
}

const char *log_ms(int64_t since, char buf[32])
{
	snprintf(buf, 32, "%.1f", (double)(monotonic_ns() - since) / 1e6);
	return buf;
}

void log_event(enum log_level level, const char *msg, ...)
{
	struct str line AUTO(str_clear) = STR_INIT(line_room());
	va_list ap;

	if (level == LOG_DEBUG && verbosity_ < 5)
		return;
	log_add_head(&line, level, msg);
	va_start(ap, msg);
	for (const char *key = va_arg(ap, const char *); key; key = va_arg(ap, const char *)) {
		const char *value = va_arg(ap, const char *);

		if (value)
			add_pair_if_it_fits(&line, key, value, false);
	}
	va_end(ap);
	emit(&line);
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	char *msg AUTO(free) = NULL;
	va_list ap;
	int n;

	if (level == LOG_DEBUG && verbosity_ < 5)
		return;
	va_start(ap, fmt);
	n = vasprintf(&msg, fmt, ap);
	va_end(ap);
	if (n >= 0)
		log_event(level, msg, NULL);
}
