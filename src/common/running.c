/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of running calls. It is a list, because it is searched only when a call hangs. Its
 * entries belong to the calls. The lock guards the list and the entries' fields; no line is logged
 * with the lock held. This module ends no call, because a call that is blocked in the kernel cannot
 * be ended.
 */
#include "common/running.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/failing.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/thread.h"

#define TOLD_AT_ONCE 16
#define TELL_VERBOSITY 2 /* the same as for all calls */

struct running {
	pthread_mutex_t lock;
	struct running_call *first;
	int64_t hung_ns, tell_ns, tell_again_ns;
};

static _Thread_local struct running_call *current; /* the call that this thread runs */

struct running *running_new(int hung_ms)
{
	struct running *r = xcalloc(1, sizeof(*r));

	pthread_mutex_init(&r->lock, NULL);
	r->hung_ns = hung_ms * NS_PER_MS;
	running_tell_after(r, RUNNING_TELL_MS, RUNNING_TELL_AGAIN_MS);
	metric_add(METRIC_OPERATIONS_HUNG, 0, NULL);
	return r;
}

void running_tell_after(struct running *r, int first_ms, int again_ms)
{
	r->tell_ns = first_ms * NS_PER_MS;
	r->tell_again_ns = again_ms * NS_PER_MS;
}

struct running *running_free(struct running *r)
{
	if (!r)
		return NULL;
	assert(!r->first);
	pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}

/* ---- one call ---- */

void running_begin(struct running *r, struct running_call *c, const char *method)
{
	if (!r)
		return;
	c->method = method;
	c->since = monotonic_ns();
	c->tell_at = c->since + r->tell_ns;
	c->table = r;
	c->span = metric_begin(METRIC_OPERATIONS_RUNNING, LABELS(method));
	WITH_LOCK(&r->lock);
	c->next = r->first;
	if (c->next)
		c->next->place = &c->next;
	c->place = &r->first;
	r->first = c;
}

void running_on_thread(struct running_call *c)
{
	int thread;

	if (!c->table)
		return;
	current = c;
	log_call(c->id);
	thread = (int)syscall(SYS_gettid);
	WITH_LOCK(&c->table->lock);
	c->thread = thread;
}

void running_about(struct running_call *c, const char *subject)
{
	if (!c->table)
		return;
	WITH_LOCK(&c->table->lock);
	c->subject = subject;
}

static void swap_doing(struct running_call *c, char **text)
{
	char *before;

	WITH_LOCK(&c->table->lock);
	before = c->doing;
	if (!before)
		c->doing_since = monotonic_ns();
	c->doing = *text;
	*text = before;
}

void running_waits(const char *fmt, ...)
{
	char *text AUTO(free) = NULL;
	va_list ap;

	if (!current)
		return;
	va_start(ap, fmt);
	if (fmt && vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	swap_doing(current, &text);
}

void running_left(struct running_call *c)
{
	if (!c->table)
		return;
	WITH_LOCK(&c->table->lock);
	c->left_at = monotonic_ns();
}

static struct running_seen seen_locked(struct running *r, const struct running_call *c)
{
	struct running_seen seen = { .method = c->method, .thread = c->thread, .id = c->id };
	int64_t now = monotonic_ns();

	assert_locked(&r->lock);
	seen.seconds = (double)(now - c->since) / 1e9;
	snprintf(seen.doing, sizeof(seen.doing), "%s", c->doing ? c->doing : "");
	seen.doing_seconds = c->doing ? (double)(now - c->doing_since) / 1e9 : 0;
	snprintf(seen.subject, sizeof(seen.subject), "%s", c->subject ? c->subject : "");
	return seen;
}

/* Removes the call. Returns true if it was reported as hung; *ret then identifies it. */
static bool unlist(struct running_call *c, struct running_seen *ret)
{
	struct running *r = c->table;
	char *doing AUTO(free) = NULL;

	WITH_LOCK(&r->lock);
	if (!c->place)
		return false;
	*c->place = c->next;
	if (c->next)
		c->next->place = c->place;
	c->place = NULL;
	metric_end(TAKE_OR(c->span, 0));
	if (c->told) {
		*ret = seen_locked(r, c);
		metric_add(METRIC_OPERATIONS_HUNG, -1, NULL);
	}
	doing = TAKE(c->doing);
	return c->told;
}

static void log_seen(enum log_level level, const char *what, const struct running_seen *seen,
                     const char *next_step)
{
	char seconds[32], thread[32], waits[32], id[32];
	const struct log_pair pairs[] = {
		log_text("method", seen->method),
		log_text("volume", *seen->subject ? seen->subject : NULL),
		log_number("seconds", seconds),
		log_number("thread", thread),
		log_text("waits_for", *seen->doing ? seen->doing : NULL),
		log_number("waits_seconds", *seen->doing ? waits : NULL),
		log_text("see", next_step),
		log_number("call", seen->id ? id : NULL),
	};

	snprintf(seconds, sizeof(seconds), "%.1f", seen->seconds);
	snprintf(thread, sizeof(thread), "%d", seen->thread);
	snprintf(waits, sizeof(waits), "%.1f", seen->doing_seconds);
	snprintf(id, sizeof(id), "%" PRIu64, seen->id);
	log_pairs(level, what, pairs, ARRAY_LEN(pairs));
}

void running_end(struct running_call *c)
{
	struct running_seen seen;

	if (current == c) {
		current = NULL;
		log_call(0);
	}
	if (c->table && unlist(c, &seen))
		log_seen(LOG_INFO, "a call that hung has returned", &seen, NULL);
}

/* ---- all calls ---- */

static bool hangs(const struct running *r, const struct running_call *c, int64_t now)
{
	return c->left_at && now - c->left_at >= r->hung_ns;
}

/*
 * Records the error under the lock, so that the call's own result is recorded later and replaces
 * it.
 */
static void note_hung_locked(struct running *r, const struct running_seen *seen)
{
	struct err err = ERR_INIT;

	assert_locked(&r->lock);
	if (!*seen->subject)
		return;
	err_set(&err, ERR_DEADLINE,
	        "the kernel has held the call for %.1f s, and its caller has left (thread %d%s%s); read "
	        "dmesg of the node, and check the DPU: the call ends when the device answers or is "
	        "removed",
	        seen->seconds, seen->thread, *seen->doing ? ", waits for " : "", seen->doing);
	failing_note(seen->subject, seen->method, &err, monotonic_ns());
}

/*
 * Returns true if *ret is a hung call that was not yet logged. Otherwise returns false; *ret_at is
 * the time at which the next call will count as hung.
 */
static bool next_untold(struct running *r, struct running_seen *ret, int64_t *ret_at)
{
	int64_t now = monotonic_ns();

	*ret_at = INT64_MAX;
	WITH_LOCK(&r->lock);
	for (struct running_call *c = r->first; c; c = c->next) {
		if (c->told || !c->left_at)
			continue;
		if (hangs(r, c, now)) {
			c->told = true;
			metric_add(METRIC_OPERATIONS_HUNG, 1, NULL);
			*ret = seen_locked(r, c);
			note_hung_locked(r, ret);
			return true;
		}
		if (c->left_at + r->hung_ns < *ret_at)
			*ret_at = c->left_at + r->hung_ns;
	}
	return false;
}

/*
 * Collects up to `max` calls that are due to be logged as still running; *ret_at is when the next
 * one is due. Hung calls are skipped, because they were already reported and have not changed.
 */
static size_t take_long(struct running *r, struct running_seen *ret, size_t max, int64_t *ret_at)
{
	int64_t now = monotonic_ns();
	size_t n = 0;

	*ret_at = INT64_MAX;
	WITH_LOCK(&r->lock);
	for (struct running_call *c = r->first; c; c = c->next) {
		if (c->tell_at <= now && n < max) {
			c->tell_at = now + r->tell_again_ns;
			if (!c->left_at)
				ret[n++] = seen_locked(r, c);
		}
		if (c->tell_at < *ret_at)
			*ret_at = c->tell_at;
	}
	return n;
}

/* Returns the time of the next call. */
FRAME_OF_ITS_OWN static int64_t tell_long(struct running *r)
{
	struct running_seen seen[TOLD_AT_ONCE];
	int64_t at;
	size_t n;

	do {
		n = take_long(r, seen, TOLD_AT_ONCE, &at);
		for (size_t i = 0; i < n && log_verbosity() >= TELL_VERBOSITY; i++)
			log_seen(LOG_INFO, "still running", &seen[i], NULL);
	} while (n == TOLD_AT_ONCE);
	return at;
}

int64_t running_watch(struct running *r)
{
	struct running_seen seen;
	int64_t at = INT64_MAX, tell_at;

	if (!r)
		return at;
	tell_at = tell_long(r);
	while (next_untold(r, &seen, &at))
		log_seen(
			LOG_WARNING,
			"a call hangs: its caller has left, and its thread is blocked in the kernel",
			&seen,
			"dmesg of the node, and /proc/<pid>/task/<thread>/stack; other volumes are served");
	return tell_at < at ? tell_at : at;
}

size_t running_list(struct running *r, bool hung, struct running_seen *ret, size_t max)
{
	int64_t now = monotonic_ns();
	size_t n = 0;

	if (!r)
		return 0;
	WITH_LOCK(&r->lock);
	for (struct running_call *c = r->first; c; c = c->next) {
		if (hung && !hangs(r, c, now))
			continue;
		if (n < max)
			ret[n] = seen_locked(r, c);
		n++;
	}
	return n;
}
