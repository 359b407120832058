/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of running calls: a list, since it is walked when a call ends or hangs only. Its
 * entries belong to the calls. The lock guards the list and the entries' fields; nothing is logged
 * under it. Ends no call: what the kernel does not end, nobody can.
 */
#include "common/running.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"

#define NS_PER_MS INT64_C(1000000)

struct running {
	pthread_mutex_t lock;
	struct running_call *first;
	int64_t hung_ns;
};

struct running *running_new(int hung_ms)
{
	struct running *r = xcalloc(1, sizeof(*r));

	pthread_mutex_init(&r->lock, NULL);
	r->hung_ns = hung_ms * NS_PER_MS;
	return r;
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
	c->table = r;
	WITH_LOCK(&r->lock);
	c->next = r->first;
	r->first = c;
}

void running_on_thread(struct running_call *c)
{
	if (!c->table)
		return;
	WITH_LOCK(&c->table->lock);
	c->thread = (int)syscall(SYS_gettid);
}

void running_about(struct running_call *c, const char *subject)
{
	if (!c->table)
		return;
	WITH_LOCK(&c->table->lock);
	c->subject = subject;
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
	struct running_seen seen = { .method = c->method, .thread = c->thread };

	assert_locked(&r->lock);
	seen.seconds = (double)(monotonic_ns() - c->since) / 1e9;
	snprintf(seen.subject, sizeof(seen.subject), "%s", c->subject ? c->subject : "");
	return seen;
}

/* True: it was told that it hangs, and *ret says which call it is. */
static bool unlist(struct running_call *c, struct running_seen *ret)
{
	struct running *r = c->table;
	struct running_call **at = &r->first;

	WITH_LOCK(&r->lock);
	while (*at && *at != c)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = c->next;
	*ret = seen_locked(r, c);
	return c->told;
}

static void log_seen(enum log_level level, const char *what, const struct running_seen *seen,
                     const char *next_step)
{
	char seconds[32], thread[32];

	snprintf(seconds, sizeof(seconds), "%.1f", seen->seconds);
	snprintf(thread, sizeof(thread), "%d", seen->thread);
	log_event(level, what, "method", seen->method, "volume",
	          *seen->subject ? seen->subject : NULL, "seconds", seconds, "thread", thread,
	          "see", next_step, NULL);
}

void running_end(struct running_call *c)
{
	struct running_seen seen;

	if (c->table && unlist(c, &seen))
		log_seen(LOG_INFO, "a call that hung has come back", &seen, NULL);
}

/* ---- all of them ---- */

static bool hangs(const struct running *r, const struct running_call *c, int64_t now)
{
	return c->left_at && now - c->left_at >= r->hung_ns;
}

/* True: *ret is a call that hangs and was not told. False: *ret_at is when the next may hang. */
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
			*ret = seen_locked(r, c);
			return true;
		}
		if (c->left_at + r->hung_ns < *ret_at)
			*ret_at = c->left_at + r->hung_ns;
	}
	return false;
}

int64_t running_watch(struct running *r)
{
	struct running_seen seen;
	int64_t at = INT64_MAX;

	while (r && next_untold(r, &seen, &at))
		log_seen(
			LOG_WARNING, "a call hangs: its caller has gone, and the kernel holds it",
			&seen,
			"dmesg of the node, and /proc/<pid>/task/<thread>/stack; other volumes are served");
	return at;
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
