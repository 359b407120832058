/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table under one lock: a hash table by volume, and a list by the time of the last failure.
 * While there are changes to write, a thread copies the table under the lock and writes the copy,
 * so that a hung disk delays no call.
 */
#include "common/failing.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/hash_table.h"
#include "common/json.h"
#include "common/keyed_hash.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "common/thread.h"
#include "common/wait_queue.h"

#define NS_PER_S INT64_C(1000000000)
/* FAILING_MAX entries, with each byte of their strings escaped as six */
#define FILE_MAX (16 * 1024 * 1024)
#define BYTES_PER_MS 256 /* average rate of writing while errors change */
#define RETRY_MS 5000    /* delay after a write that failed */
#define RETRY_LOG_S 600

struct failing_entry {
	struct hash_link link;
	struct failing_entry *older, *newer;
	struct failing_error e;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock. */
static struct hash_table table;
static struct hash_key hash_key;
static bool has_key;
static struct failing_entry *oldest, *newest;
static char *file; /* NULL: nothing is written */
static struct failing_options pauses;
static bool changed, writing, stopping;
/* an entry was added or removed, or its error has changed */
static bool news;
static bool failed;       /* the last write has failed */
static int64_t wrote_at;  /* when the file was last written; monotonic ns; 0: never */
static size_t wrote_size; /* size of the last write in bytes */
static struct wait_queue written;

/* ---- the table ---- */

static uint64_t failing_hash_locked(const char *volume)
{
	assert_locked(&lock);
	if (!has_key)
		hash_key = hash_key_random();
	has_key = true;
	return keyed_hash(&hash_key, volume, strlen(volume));
}

static struct failing_entry *failing_lookup_locked(const char *volume)
{
	struct hash_link *l;

	assert_locked(&lock);
	if (!table.n)
		return NULL;
	l = hash_table_first(&table, failing_hash_locked(volume));
	while (l && !str_eq(((struct failing_entry *)l)->e.volume, volume))
		l = hash_table_next(l);
	return (struct failing_entry *)l;
}

static void unlink_locked(struct failing_entry *f)
{
	assert_locked(&lock);
	*(f->older ? &f->older->newer : &oldest) = f->newer;
	*(f->newer ? &f->newer->older : &newest) = f->older;
	f->older = f->newer = NULL;
}

static void link_newest_locked(struct failing_entry *f)
{
	assert_locked(&lock);
	f->older = newest;
	*(newest ? &newest->newer : &oldest) = f;
	newest = f;
}

static void remove_locked(struct failing_entry *f)
{
	assert_locked(&lock);
	hash_table_remove(&table, &f->link);
	unlink_locked(f);
	free(f);
}

static struct failing_entry *add_locked(const char *volume)
{
	struct failing_entry *f;

	assert_locked(&lock);
	if (table.n == FAILING_MAX)
		remove_locked(oldest);
	f = xcalloc(1, sizeof(*f));
	snprintf(f->e.volume, sizeof(f->e.volume), "%s", volume);
	hash_table_add(&table, &f->link, failing_hash_locked(volume));
	link_newest_locked(f);
	return f;
}

/* Returns true if the entry is new, or if its error has changed. */
static bool note_failed_locked(const char *volume, const char *call, const struct err *err,
                               int64_t now)
{
	struct failing_entry *f;
	bool is_new;

	assert_locked(&lock);
	f = failing_lookup_locked(volume);
	if (f) {
		unlink_locked(f);
		link_newest_locked(f);
	} else {
		f = add_locked(volume);
	}
	if (!f->e.count || now - f->e.last > FAILING_FORGOTTEN_NS) {
		f->e.first = now;
		f->e.count = 0;
	}
	f->e.last = now;
	is_new = !f->e.count++;
	/* "An operation is pending" is less informative than the error before that. */
	if (!is_new && err->code == ERR_ABORTED && f->e.err.code != ERR_ABORTED)
		return false;
	is_new = is_new || f->e.err.code != err->code || !str_eq(f->e.err.msg, err->msg) ||
	         !str_eq(f->e.call, call);
	f->e.err = *err;
	snprintf(f->e.call, sizeof(f->e.call), "%s", call);
	return is_new;
}

/* ---- the file ---- */

static char *failing_print(const struct failing_error *v, size_t n)
{
	struct json *tree AUTO(json_free) = json_object();
	struct json *list = json_array();
	int64_t since_boot = monotonic_ns() / NS_PER_S;
	int64_t now = time(NULL);

	json_set(tree, "errors", list);
	for (size_t i = 0; i < n; i++) {
		struct json *item = json_object();

		json_set_str(item, "volume", v[i].volume);
		json_set_str(item, "call", v[i].call);
		json_set_int(item, "code", v[i].err.code);
		if (v[i].err.kind)
			json_set_int(item, "kind", v[i].err.kind);
		json_set_str(item, "text", v[i].err.msg);
		json_set_int(item, "first", now - since_boot + v[i].first / NS_PER_S);
		json_set_int(item, "last", now - since_boot + v[i].last / NS_PER_S);
		json_set_int(item, "count", (int64_t)v[i].count);
		json_append(list, item);
	}
	return json_print_shown(tree);
}

/* Returns false if a member of the entry is missing, has the wrong type or is out of range. */
static bool failing_parse(const struct json *item, struct failing_error *ret)
{
	const char *volume = json_str(item, "volume"), *call = json_str(item, "call");
	const char *text = json_str(item, "text");
	struct err ignored = ERR_INIT;
	int64_t code = 0, kind = ERR_KIND_NONE, count = 0;

	*ret = (struct failing_error) { .count = 0 };
	if (str_empty(volume) || strlen(volume) >= sizeof(ret->volume) || str_empty(call) ||
	    !text || json_get_i64(item, "code", &code, &ignored) ||
	    json_get_i64(item, "count", &count, &ignored) ||
	    json_get_i64(item, "first", &ret->first, &ignored) ||
	    json_get_i64(item, "last", &ret->last, &ignored))
		return false;
	if (code <= ERR_OK || code > ERR_UNAUTHENTICATED || count < 1 || ret->first < 0 ||
	    ret->last < 0)
		return false;
	snprintf(ret->volume, sizeof(ret->volume), "%s", volume);
	snprintf(ret->call, sizeof(ret->call), "%s", call);
	err_set(&ret->err, (enum err_code)code, "%s", text);
	/* An older driver writes no kind, and a newer one may write more kinds. */
	if (json_get_i64(item, "kind", &kind, &ignored) == 0 && kind > ERR_KIND_NONE &&
	    kind <= ERR_KIND_WRONG_PASSPHRASE)
		err_set_kind(&ret->err, (enum err_kind)kind);
	ret->count = (uint64_t)count;
	return true;
}

int failing_read(const char *path, void (*fn)(void *arg, const struct failing_error *e), void *arg,
                 struct err *err)
{
	struct json *tree AUTO(json_free) = NULL;
	char *text AUTO(free) = NULL;
	struct failing_error e;
	size_t n = 0;

	if (!path_exists(path))
		return 0;
	if (file_read(path, FILE_MAX, &text, &n, err) || json_parse(path, text, n, &tree, err))
		return -1;
	if (!json_is_array(json_member(tree, "errors")))
		return err_set(err, ERR_INVALID, "%s: has no list of errors; remove it", path);
	json_foreach (item, json_member(tree, "errors"))
		if (failing_parse(item, &e))
			fn(arg, &e);
	return 0;
}

/* Returns a copy of the table, the oldest entry first; malloc'ed. */
static struct failing_error *copy_locked(size_t *ret_n)
{
	struct failing_error *v;
	size_t n = 0;

	assert_locked(&lock);
	v = xcalloc(table.n + 1, sizeof(*v));
	for (const struct failing_entry *f = oldest; f; f = f->newer)
		v[n++] = f->e;
	*ret_n = n;
	return v;
}

/*
 * Writes the file. It cannot be written if the directory is full, read-only or removed; the table
 * in memory is complete.
 */
static bool failing_write(const char *path, const struct failing_error *v, size_t n,
                          size_t *ret_size)
{
	char *text AUTO(free) = failing_print(v, n);
	struct err err = ERR_INIT;

	*ret_size = strlen(text);
	if (!file_replace(path, text, *ret_size, 0600, &err))
		return true;
	log_limited(LOG_WARNING, RETRY_LOG_S,
	            "the last errors of volumes cannot be written, so `inspect` does not show "
	            "new ones: %s",
	            err.msg);
	return false;
}

/*
 * Returns when the next write is due; monotonic ns. A large table is written less often than a
 * small one.
 */
static int64_t due_locked(void)
{
	int64_t pause = news ? pauses.news_ms : pauses.repeat_ms;

	assert_locked(&lock);
	if (!wrote_at)
		return 0;
	if (failed)
		pause = RETRY_MS;
	else if (pause < (int64_t)wrote_size / BYTES_PER_MS)
		pause = (int64_t)wrote_size / BYTES_PER_MS;
	return wrote_at + pause * NS_PER_MS;
}

/* Waits until a write is due. *ret is the copy to write; NULL if the thread ends. */
static char *failing_next(struct failing_error **ret, size_t *ret_n)
{
	WITH_LOCK(&lock);

	while (changed && file && !stopping && monotonic_ns() < due_locked())
		IGNORE_RESULT(
			wait_queue_wait(&written, &lock, (struct deadline) { .at = due_locked() }));
	if (!changed || !file || (stopping && failed)) {
		writing = false;
		wait_queue_wake(&written);
		return NULL;
	}
	changed = news = false;
	*ret = copy_locked(ret_n);
	return xstrdup(file);
}

static void *failing_main(void *arg)
{
	struct failing_error *v;
	char *path;
	size_t n, size;
	bool ok;

	(void)arg;
	while ((path = failing_next(&v, &n))) {
		ok = failing_write(path, v, n, &size);
		free(path);
		free(v);
		WITH_LOCK(&lock);
		failed = !ok;
		changed |= failed;
		wrote_at = monotonic_ns();
		wrote_size = size;
	}
	return NULL;
}

/* Records that the table has changed. Returns true if a thread has to be started to write it. */
static bool is_to_be_written_locked(bool is_news)
{
	assert_locked(&lock);
	changed = true;
	if (is_news && !news)
		wait_queue_wake(&written); /* the write may be due earlier */
	news |= is_news;
	if (!file || writing || stopping)
		return false;
	writing = true;
	return true;
}

static void failing_begin_write(void)
{
	if (!thread_start(failing_main, NULL))
		return;
	WITH_LOCK(&lock);
	writing = false; /* the next change retries */
	wait_queue_wake(&written);
}

/* ---- functions for other modules ---- */

static bool note(const char *volume, const char *call, bool only_reads, const struct err *err,
                 int64_t now)
{
	struct failing_entry *f;
	WITH_LOCK(&lock);

	f = failing_lookup_locked(volume);
	if (only_reads && f && !str_eq(f->e.call, call))
		return false;
	if (err)
		return is_to_be_written_locked(note_failed_locked(volume, call, err, now));
	if (!f)
		return false;
	remove_locked(f);
	return is_to_be_written_locked(true);
}

static void note_and_write(const char *volume, const char *call, bool only_reads,
                           const struct err *err, int64_t now)
{
	if (strlen(volume) < sizeof(((struct failing_error *)0)->volume) &&
	    note(volume, call, only_reads, err, now))
		failing_begin_write();
}

void failing_note(const char *volume, const char *call, const struct err *err, int64_t now)
{
	note_and_write(volume, call, false, err, now);
}

void failing_note_read(const char *volume, const char *call, const struct err *err, int64_t now)
{
	note_and_write(volume, call, true, err && err->code == ERR_UNAVAILABLE ? err : NULL, now);
}

unsigned failing_count(int64_t now, int64_t *ret_oldest)
{
	unsigned n = 0;
	WITH_LOCK(&lock);

	*ret_oldest = 0;
	for (const struct failing_entry *f = newest; f; f = f->older) {
		if (now - f->e.last > FAILING_FORGOTTEN_NS)
			break;
		n++;
		if (now - f->e.first > *ret_oldest)
			*ret_oldest = now - f->e.first;
	}
	return n;
}

bool failing_find(const char *volume, struct failing_error *ret)
{
	const struct failing_entry *f;
	WITH_LOCK(&lock);

	f = failing_lookup_locked(volume);
	if (f)
		*ret = f->e;
	return f != NULL;
}

/* Restores an entry of an earlier process. A time in the future is replaced by the current time. */
static void failing_restore(void *arg, const struct failing_error *e)
{
	int64_t now = time(NULL), mono = monotonic_ns();
	int64_t last = e->last > now ? now : e->last, first = e->first > last ? last : e->first;
	struct failing_entry *f;
	WITH_LOCK(&lock);

	(void)arg;
	if (failing_lookup_locked(e->volume))
		return;
	f = add_locked(e->volume);
	f->e = *e;
	f->e.first = mono - (now - first) * NS_PER_S;
	f->e.last = mono - (now - last) * NS_PER_S;
}

int failing_start(const struct failing_options *o, struct err *err)
{
	int rc = failing_read(o->path, failing_restore, NULL, err);
	WITH_LOCK(&lock);

	free(file);
	file = xstrdup(o->path);
	pauses = (struct failing_options) {
		.news_ms = o->news_ms ? o->news_ms : FAILING_NEWS_MS,
		.repeat_ms = o->repeat_ms ? o->repeat_ms : FAILING_REPEAT_MS,
	};
	changed = news = stopping = failed = false;
	wrote_at = 0;
	return rc;
}

void failing_stop(struct deadline until)
{
	WITH_LOCK(&lock);

	stopping = true;
	wait_queue_wake(&written);
	while (writing && wait_queue_wait(&written, &lock, until))
		;
	free(TAKE(file));
}
