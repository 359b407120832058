/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded looks. Owns a list of looks in progress. A look is shared by its helper thread and its
 * callers and freed by the last of them, so a helper that never returns keeps 300 bytes and its
 * small stack, once per filesystem and way to ask. The lock guards the list and the looks' fields;
 * no filesystem is asked under it.
 */
#include "node/target/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "node/mount/mount.h"

/* All fields under shared->lock. */
struct look {
	struct look *next;
	enum guard_ask ask;
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
	int64_t wait_ms;
	int (*ask[GUARD_ASKS])(const char *path, struct statvfs *ret);
};

struct guard {
	struct shared *shared;
};

struct helper {
	struct shared *shared;
	struct look *look;
	int (*ask)(const char *path, struct statvfs *ret);
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

static int open_directory(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Removing an extended attribute that does not exist: the kernel waits for the end of a freeze,
 * then the filesystem begins a transaction and looks the name up. Any other errno is the answer of
 * a filesystem that can be written.
 */
static int remove_absent(const char *path, const char *name)
{
	int fd AUTO(fd) = open_directory(path);

	if (fd < 0)
		return -1;
	return fremovexattr(fd, name) < 0 && (errno == EROFS || mount_errno_is_dead(errno)) ? -1
	                                                                                    : 0;
}

/* Of a namespace that no filesystem has: the filesystem is not asked, so nothing is written. */
static int begin_write(const char *path, struct statvfs *ignored)
{
	(void)ignored;
	return remove_absent(path, "snap-csi.absent");
}

static int begin_transaction(const char *path, struct statvfs *ignored)
{
	(void)ignored;
	return remove_absent(path, "trusted.snap-csi.absent");
}

/* A freeze of the device counts apart from one of fsfreeze(8), and a call may end only one. */
static int thaw(const char *path, struct statvfs *ignored)
{
	enum { FREEZES_MAX = 8 };
	int fd AUTO(fd) = open_directory(path);

	(void)ignored;
	if (fd < 0)
		return -1;
	for (int i = 0; i < FREEZES_MAX; i++) {
		if (ioctl(fd, FITHAW, 0) < 0)
			return errno == EINVAL || errno == EOPNOTSUPP || errno == ENOTTY ? 0 : -1;
		if (i == 0)
			log_msg(LOG_WARNING,
			        "the filesystem at %s was frozen (fsfreeze -f) and is thawed: a "
			        "frozen filesystem would keep its disk after its last unmount",
			        path);
	}
	errno = EBUSY;
	return -1;
}

static int (*const asks[GUARD_ASKS])(const char *path, struct statvfs *ret) = {
	[GUARD_READ] = look,
	[GUARD_WRITE] = begin_write,
	[GUARD_COMMIT] = begin_transaction,
	[GUARD_THAW] = thaw,
};

struct guard *guard_new(void)
{
	struct guard *g = xcalloc(1, sizeof(*g));

	g->shared = xcalloc(1, sizeof(*g->shared));
	pthread_mutex_init(&g->shared->lock, NULL);
	pthread_cond_init(&g->shared->changed, NULL);
	g->shared->holders = 1;
	g->shared->wait_ms = GUARD_MS;
	memcpy(g->shared->ask, asks, sizeof(asks));
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

void guard_set(struct guard *g, enum guard_ask ask,
               int (*fn)(const char *path, struct statvfs *ret))
{
	WITH_LOCK(&g->shared->lock);
	g->shared->ask[ask] = fn ? fn : asks[ask];
}

void guard_set_statvfs(struct guard *g, int (*fn)(const char *path, struct statvfs *ret))
{
	guard_set(g, GUARD_READ, fn);
}

void guard_set_wait(struct guard *g, int64_t ms)
{
	WITH_LOCK(&g->shared->lock);
	g->shared->wait_ms = ms;
}

static bool is_write(enum guard_ask ask)
{
	return ask == GUARD_WRITE || ask == GUARD_COMMIT;
}

/*
 * Would the request `ask` hang if `that` hangs? A filesystem that cannot be read cannot be written
 * either. A thaw is always tried: it may end the wait of the other requests.
 */
static bool hangs_as(enum guard_ask ask, enum guard_ask that)
{
	return ask == that || (is_write(ask) && (is_write(that) || that == GUARD_READ));
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
		if (other != l && other->ask == l->ask && other->devno == l->devno && other->hung)
			return true;
	return false;
}

/* Counts filesystems, not looks. A frozen filesystem does not count: its device answers. */
static void count_hung_locked(struct shared *s, const struct look *l, int n)
{
	if (l->ask == GUARD_READ && !hangs_too_locked(s, l))
		metric_add(METRIC_BACKENDS_HUNG, n, NULL);
}

static void *helper_main(void *arg)
{
	struct helper h = *(struct helper *)arg;
	struct statvfs result = { 0 };
	int sys;

	free(arg);
	sys = h.ask(h.look->path, &result) < 0 ? errno : 0;
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

	*h = (struct helper) { s, l, s->ask[l->ask] };
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
static struct look *begin_locked(struct shared *s, enum guard_ask ask, dev_t devno,
                                 const char *path, struct err *err)
{
	struct look *l = xcalloc(1, sizeof(*l));
	int rc;

	assert_locked(&s->lock);
	*l = (struct look) { .next = s->looks,
		             .ask = ask,
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
	const char *fact = l->ask == GUARD_READ ? "has not answered"
	                   : is_write(l->ask)   ? "has held a write"
	                                        : "has not been thawed";
	const char *cause = l->ask == GUARD_READ
	                            ? "its device hangs"
	                            : "it is frozen (fsfreeze -f), or its device hangs";

	err_set(err, ERR_UNAVAILABLE, "the filesystem on device %u:%u at %s %s for %.1f s: %s",
	        major(l->devno), minor(l->devno), path, fact,
	        (double)(monotonic_ns() - l->since) / 1e9, cause);
	err->sys = ETIMEDOUT;
	return -1;
}

static const char *verb_of(enum guard_ask ask)
{
	return ask == GUARD_READ ? "look at" : is_write(ask) ? "write to" : "thaw";
}

/* Takes a reference to a look in progress, or to a new one. NULL: *err is set. */
static struct look *hold_locked(struct shared *s, enum guard_ask ask, dev_t devno, const char *path,
                                struct err *err)
{
	struct look *l = NULL;

	assert_locked(&s->lock);
	for (struct look *other = s->looks; other; other = other->next) {
		if (other->devno != devno)
			continue;
		if (other->hung && hangs_as(ask, other->ask)) {
			hangs(other, path, err);
			return NULL;
		}
		if (other->ask == ask && str_eq(other->path, path))
			l = other;
	}
	if (!l)
		return begin_locked(s, ask, devno, path, err);
	l->holders++;
	return l;
}

static bool is_held_locked(struct shared *s, dev_t devno)
{
	assert_locked(&s->lock);
	for (const struct look *l = s->looks; l; l = l->next)
		if (l->devno == devno && is_write(l->ask))
			return true;
	return false;
}

/* Waits for the writes that the freeze has blocked: until they end, the mount is busy. */
static void await_writes_locked(struct shared *s, dev_t devno, const struct timespec *until)
{
	int rc = 0;

	while (is_held_locked(s, devno) && rc == 0)
		rc = pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, until);
}

static int ask_and_wait(struct guard *g, enum guard_ask ask, dev_t devno, const char *path,
                        struct statvfs *ret, int *ret_sys, struct err *err)
{
	struct shared *s = g->shared;
	struct timespec until;
	struct look *l;
	int rc = 0;

	WITH_LOCK(&s->lock);
	until = deadline_timespec(deadline_in_ms(s->wait_ms));
	l = hold_locked(s, ask, devno, path, err);
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
	if (l->done && !l->sys && ask == GUARD_THAW)
		await_writes_locked(s, devno, &until);
	look_put_locked(s, l);
	return rc;
}

static int answered(enum guard_ask ask, int sys, const char *path, struct err *err)
{
	err_sys(err, sys, "%s the filesystem at %s", verb_of(ask), path);
	return err_recode(err, ERR_UNAVAILABLE);
}

int guard_read(struct guard *g, dev_t devno, const char *path, struct statvfs *ret, int *ret_sys,
               struct err *err)
{
	return ask_and_wait(g, GUARD_READ, devno, path, ret, ret_sys, err);
}

int guard_statvfs(struct guard *g, dev_t devno, const char *path, struct statvfs *ret,
                  struct err *err)
{
	int sys;

	if (guard_read(g, devno, path, ret, &sys, err))
		return -1;
	return sys ? answered(GUARD_READ, sys, path, err) : 0;
}

int guard_ask(struct guard *g, enum guard_ask ask, dev_t devno, const char *path, struct err *err)
{
	struct statvfs ignored;
	int sys;

	if (ask_and_wait(g, ask, devno, path, &ignored, &sys, err))
		return -1;
	return sys ? answered(ask, sys, path, err) : 0;
}
