/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded statfs(2). Owns a list of looks in progress. A look is shared by its helper thread and
 * its callers and freed by the last of them, so a helper that never returns keeps 300 bytes and its
 * small stack, once per dead filesystem. The lock guards the list and the looks' fields; no
 * filesystem is asked under it.
 */
#include "node/guard.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"

/* All fields under shared->lock. */
struct look {
	struct look *next;
	dev_t devno;
	char *path;
	int64_t since;
	unsigned holders; /* helper and waiting callers */
	bool done;
	bool hung; /* somebody has waited GUARD_MS for it */
	int sys;   /* errno, 0 when it worked */
	struct statvfs result;
};

/* Outlives the guard while a helper hangs. */
struct shared {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct look *looks;
	unsigned holders; /* the guard and each helper */
	int (*statvfs)(const char *path, struct statvfs *ret);
};

struct guard {
	struct shared *shared;
};

struct helper {
	struct shared *shared;
	struct look *look;
	int (*statvfs)(const char *path, struct statvfs *ret);
};

static struct statvfs as_statvfs(const struct statfs *fs)
{
	return (struct statvfs) {
		.f_bsize = (unsigned long)fs->f_bsize,
		.f_frsize = (unsigned long)(fs->f_frsize ? fs->f_frsize : fs->f_bsize),
		.f_blocks = fs->f_blocks,
		.f_bfree = fs->f_bfree,
		.f_bavail = fs->f_bavail,
		.f_files = fs->f_files,
		.f_ffree = fs->f_ffree,
	};
}

static int read_first_entry(const char *path)
{
	struct stat st;
	DIR *dir;
	int sys = 0;

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return 0;
	dir = opendir(path);
	if (!dir)
		return -1;
	errno = 0;
	if (!readdir(dir))
		sys = errno;
	closedir(dir);
	errno = sys;
	return sys ? -1 : 0;
}

/*
 * An xfs that has shut itself down answers statfs(2) from memory, but reads no directory. The
 * server of a share answers each statfs(2) itself, and may need long to list a large directory.
 */
static int look(const char *path, struct statvfs *ret)
{
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return -1;
	*ret = as_statvfs(&fs);
	return fs.f_type == FUSE_SUPER_MAGIC ? 0 : read_first_entry(path);
}

struct guard *guard_new(void)
{
	struct guard *g = xcalloc(1, sizeof(*g));

	g->shared = xcalloc(1, sizeof(*g->shared));
	pthread_mutex_init(&g->shared->lock, NULL);
	pthread_cond_init(&g->shared->changed, NULL);
	g->shared->holders = 1;
	g->shared->statvfs = look;
	metric_add(METRIC_BACKENDS_HUNG, 0, NULL);
	return g;
}

static void shared_put(struct shared *s)
{
	bool last;

	{
		WITH_LOCK(&s->lock);
		assert(s->holders);
		last = --s->holders == 0;
	}
	if (!last)
		return;
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct guard *guard_free(struct guard *g)
{
	if (g)
		shared_put(g->shared);
	free(g);
	return NULL;
}

void guard_set_statvfs(struct guard *g, int (*fn)(const char *path, struct statvfs *ret))
{
	WITH_LOCK(&g->shared->lock);
	g->shared->statvfs = fn ? fn : look;
}

static void look_put_locked(struct shared *s, struct look *l)
{
	assert_locked(&s->lock);
	assert(l->holders);
	if (--l->holders)
		return;
	free(l->path);
	free(l);
}

static void unlink_locked(struct shared *s, struct look *l)
{
	assert_locked(&s->lock);
	for (struct look **p = &s->looks; *p; p = &(*p)->next)
		if (*p == l) {
			*p = l->next;
			return;
		}
}

/* Another look at the same filesystem, by another path, that hangs as well. */
static bool hangs_too_locked(struct shared *s, const struct look *l)
{
	assert_locked(&s->lock);
	for (const struct look *other = s->looks; other; other = other->next)
		if (other != l && other->devno == l->devno && other->hung)
			return true;
	return false;
}

/* Counts filesystems, not looks. */
static void count_hung_locked(struct shared *s, const struct look *l, int n)
{
	if (!hangs_too_locked(s, l))
		metric_add(METRIC_BACKENDS_HUNG, n, NULL);
}

static void *helper_main(void *arg)
{
	struct helper h = *(struct helper *)arg;
	struct statvfs result = { 0 };
	int sys;

	free(arg);
	sys = h.statvfs(h.look->path, &result) < 0 ? errno : 0;
	{
		WITH_LOCK(&h.shared->lock);
		h.look->result = result;
		h.look->sys = sys;
		h.look->done = true;
		if (h.look->hung)
			count_hung_locked(h.shared, h.look, -1);
		unlink_locked(h.shared, h.look);
		look_put_locked(h.shared, h.look);
		pthread_cond_broadcast(&h.shared->changed);
	}
	shared_put(h.shared);
	return NULL;
}

static int start_helper(struct shared *s, struct look *l)
{
	struct helper *h = xmalloc(sizeof(*h));
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	*h = (struct helper) { s, l, s->statvfs };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	rc = pthread_create(&thread, &attr, helper_main, h);
	pthread_attr_destroy(&attr);
	if (rc)
		free(h);
	return rc;
}

/* Starts a look, which the caller then holds. NULL with *err: no thread could be started. */
static struct look *begin_locked(struct shared *s, dev_t devno, const char *path, struct err *err)
{
	struct look *l = xcalloc(1, sizeof(*l));
	int rc;

	assert_locked(&s->lock);
	*l = (struct look) { .next = s->looks,
		             .devno = devno,
		             .path = xstrdup(path),
		             .since = monotonic_ns(),
		             .holders = 2 };
	s->holders++;
	s->looks = l;
	rc = start_helper(s, l);
	if (rc == 0)
		return l;
	s->holders--;
	s->looks = l->next;
	l->holders = 1;
	look_put_locked(s, l);
	err_sys(err, rc, "start a thread to look at %s", path);
	err_recode(err, ERR_UNAVAILABLE);
	return NULL;
}

static int hangs(const struct look *l, const char *path, struct err *err)
{
	err_set(err, ERR_UNAVAILABLE,
	        "the filesystem on device %u:%u at %s has not answered for %.1f s: "
	        "its device hangs",
	        major(l->devno), minor(l->devno), path, (double)(monotonic_ns() - l->since) / 1e9);
	err->sys = ETIMEDOUT;
	return -1;
}

int guard_ask(struct guard *g, dev_t devno, const char *path, struct statvfs *ret, int *ret_sys,
              struct err *err)
{
	struct timespec until = deadline_timespec(deadline_in_ms(GUARD_MS));
	struct shared *s = g->shared;
	struct look *l = NULL;
	int rc = 0;

	WITH_LOCK(&s->lock);
	for (struct look *other = s->looks; other; other = other->next) {
		if (other->devno != devno)
			continue;
		if (other->hung)
			return hangs(other, path, err);
		if (str_eq(other->path, path))
			l = other;
	}
	if (l)
		l->holders++;
	else
		l = begin_locked(s, devno, path, err);
	if (!l)
		return -1;
	while (!l->done && rc == 0)
		rc = pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until);
	if (!l->done) {
		if (!l->hung)
			count_hung_locked(s, l, 1);
		l->hung = true;
		rc = hangs(l, path, err);
	} else {
		*ret = l->result;
		*ret_sys = l->sys;
		rc = 0;
	}
	look_put_locked(s, l);
	return rc;
}

int guard_statvfs(struct guard *g, dev_t devno, const char *path, struct statvfs *ret,
                  struct err *err)
{
	int sys;

	if (guard_ask(g, devno, path, ret, &sys, err))
		return -1;
	if (!sys)
		return 0;
	err_sys(err, sys, "look at the filesystem at %s", path);
	return err_recode(err, ERR_UNAVAILABLE);
}
