/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes requests to filesystems, each on a detached thread. Owns the list of requests in progress.
 * A helper that never returns keeps its request and its small stack; there is at most one such
 * helper per filesystem and kind of request. The lock protects the list and the fields of the
 * requests; no filesystem is accessed under it.
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
#include "common/detached.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "node/mount/mount.h"

/* The data of a helper. `done`, `hung` and the result are protected by guard->lock. */
struct guard_probe {
	struct guard_probe *next;
	struct guard *guard;
	struct detached *work;
	enum guard_ask ask;
	int (*fn)(const char *path, struct statvfs *ret);
	dev_t devno;
	char *path;
	int64_t since;
	bool done;
	bool hung; /* a caller has waited for it for guard_ms */
	int sys;   /* errno; 0 on success */
	struct statvfs result;
};

/* Freed with its last reference: a helper that hangs keeps it longer than its owner does. */
struct guard {
	pthread_mutex_t lock;
	struct guard_probe *probes;
	unsigned holders; /* references: one of the owner, and one of each probe */
	const int64_t *wait_ms;
	int (*ask[GUARD_ASKS])(const char *path, struct statvfs *ret);
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

static int guard_read_entry(const char *path)
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
 * Calls statvfs(3), and for a disk's filesystem reads the first directory entry, because an xfs
 * that has shut itself down still answers statfs(2) from memory. For a share no directory is read:
 * the server answers each statfs(2) itself, and may take long to list a large directory. A
 * directory that may not be listed (root squash, SELinux) says nothing about the filesystem.
 */
static int guard_read_root(const char *path, struct statvfs *ret)
{
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return -1;
	*ret = as_statvfs(&fs);
	if (fs.f_type == FUSE_SUPER_MAGIC || guard_read_entry(path) == 0)
		return 0;
	return errno == EACCES || errno == EPERM ? 0 : -1;
}

static int open_directory(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Removes an extended attribute that does not exist: the kernel first waits until the filesystem is
 * not frozen, then the filesystem starts a transaction and looks up the name. Any other errno means
 * that the filesystem is writable.
 */
static int guard_remove_absent(const char *path, const char *name)
{
	int fd AUTO(fd) = open_directory(path);

	if (fd < 0)
		return -1;
	return fremovexattr(fd, name) < 0 && (errno == EROFS || mount_errno_is_dead(errno)) ? -1
	                                                                                    : 0;
}

/*
 * Removes an attribute in a namespace that no filesystem supports, so the request does not reach
 * the filesystem and nothing is written.
 */
static int begin_write(const char *path, struct statvfs *ignored)
{
	(void)ignored;
	return guard_remove_absent(path, "snap-csi.absent");
}

static int begin_transaction(const char *path, struct statvfs *ignored)
{
	(void)ignored;
	return guard_remove_absent(path, "trusted.snap-csi.absent");
}

/*
 * Thaws the filesystem. The kernel counts a freeze of the device separately from one of
 * fsfreeze(8), and one call ends only one freeze.
 */
static int guard_thaw(const char *path, struct statvfs *ignored)
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
	[GUARD_READ] = guard_read_root,
	[GUARD_WRITE] = begin_write,
	[GUARD_COMMIT] = begin_transaction,
	[GUARD_THAW] = guard_thaw,
};

struct guard *guard_new(const int64_t *wait_ms)
{
	struct guard *g = xcalloc(1, sizeof(*g));

	pthread_mutex_init(&g->lock, NULL);
	g->holders = 1;
	g->wait_ms = wait_ms;
	memcpy(g->ask, asks, sizeof(asks));
	metric_add(METRIC_BACKENDS_HUNG, 0, NULL);
	return g;
}

static void guard_put(struct guard *g)
{
	bool last;

	{
		WITH_LOCK(&g->lock);
		assert(g->holders);
		last = --g->holders == 0;
	}
	if (!last)
		return;
	pthread_mutex_destroy(&g->lock);
	free(g);
}

struct guard *guard_free(struct guard *g)
{
	if (g)
		guard_put(g);
	return NULL;
}

void guard_set(struct guard *g, enum guard_ask ask,
               int (*fn)(const char *path, struct statvfs *ret))
{
	WITH_LOCK(&g->lock);
	g->ask[ask] = fn ? fn : asks[ask];
}

void guard_set_statvfs(struct guard *g, int (*fn)(const char *path, struct statvfs *ret))
{
	guard_set(g, GUARD_READ, fn);
}

static bool is_write(enum guard_ask ask)
{
	return ask == GUARD_WRITE || ask == GUARD_COMMIT;
}

/*
 * Returns true if the request `ask` would hang while `that` hangs. A filesystem that cannot be read
 * cannot be written either. A thaw is always tried, because it may end the wait of the other
 * requests.
 */
static bool hangs_as(enum guard_ask ask, enum guard_ask that)
{
	return ask == that || (is_write(ask) && (is_write(that) || that == GUARD_READ));
}

static void guard_unlink_locked(struct guard *g, struct guard_probe *l)
{
	assert_locked(&g->lock);
	for (struct guard_probe **p = &g->probes; *p; p = &(*p)->next)
		if (*p == l) {
			*p = l->next;
			return;
		}
}

/* Returns true if another probe of the same filesystem, by another path, hangs as well. */
static bool hangs_too_locked(struct guard *g, const struct guard_probe *l)
{
	assert_locked(&g->lock);
	for (const struct guard_probe *other = g->probes; other; other = other->next)
		if (other != l && other->ask == l->ask && other->devno == l->devno && other->hung)
			return true;
	return false;
}

/*
 * Counts hung filesystems, not probes. A frozen filesystem is not counted, because its device
 * answers.
 */
static void count_hung_locked(struct guard *g, const struct guard_probe *l, int n)
{
	if (l->ask == GUARD_READ && !hangs_too_locked(g, l))
		metric_add(METRIC_BACKENDS_HUNG, n, NULL);
}

static void guard_helper(void *box)
{
	struct guard_probe *l = box;
	struct statvfs result = { 0 };
	int sys = l->fn(l->path, &result) < 0 ? errno : 0;

	WITH_LOCK(&l->guard->lock);
	l->result = result;
	l->sys = sys;
	l->done = true;
	if (l->hung)
		count_hung_locked(l->guard, l, -1);
	guard_unlink_locked(l->guard, l);
}

static void guard_probe_free(void *box)
{
	struct guard_probe *l = box;

	guard_put(l->guard);
	free(l->path);
	free(l);
}

/*
 * Starts a probe, and returns a reference. Returns NULL, with *err set, if no thread can be
 * started.
 */
static struct guard_probe *guard_begin_locked(struct guard *g, enum guard_ask ask, dev_t devno,
                                              const char *path, struct err *err)
{
	struct guard_probe *l = xcalloc(1, sizeof(*l));

	assert_locked(&g->lock);
	*l = (struct guard_probe) { .next = g->probes,
		                    .guard = g,
		                    .ask = ask,
		                    .fn = g->ask[ask],
		                    .devno = devno,
		                    .path = xstrdup(path),
		                    .since = monotonic_ns() };
	l->work = detached_start(guard_helper, guard_probe_free, l, err);
	if (!l->work) {
		err_wrap(err, "probe %s", path);
		free(l->path);
		free(l);
		return NULL;
	}
	g->holders++;
	g->probes = l;
	return l;
}

static int refuse_guard_hang(const struct guard_probe *l, const char *path, struct err *err)
{
	const char *fact = l->ask == GUARD_READ ? "has not answered"
	                   : is_write(l->ask)   ? "has blocked a write"
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

/* Takes a reference to a probe in progress, or to a new one. Returns NULL if *err is set. */
static struct guard_probe *guard_hold_locked(struct guard *g, enum guard_ask ask, dev_t devno,
                                             const char *path, struct err *err)
{
	struct guard_probe *l = NULL;

	assert_locked(&g->lock);
	for (struct guard_probe *other = g->probes; other; other = other->next) {
		if (other->devno != devno)
			continue;
		if (other->hung && hangs_as(ask, other->ask)) {
			refuse_guard_hang(other, path, err);
			return NULL;
		}
		if (other->ask == ask && str_eq(other->path, path))
			l = other;
	}
	if (!l)
		return guard_begin_locked(g, ask, devno, path, err);
	detached_get(l->work);
	return l;
}

/*
 * Takes a reference to a write probe of this filesystem that is in progress. Returns NULL if there
 * is no such probe.
 */
static struct detached *hold_write(struct guard *g, dev_t devno)
{
	WITH_LOCK(&g->lock);
	for (const struct guard_probe *l = g->probes; l; l = l->next)
		if (l->devno == devno && is_write(l->ask))
			return detached_get(l->work);
	return NULL;
}

/*
 * Waits for the write probes that the freeze has blocked, because the mount is busy until they end.
 */
static void await_writes(struct guard *g, dev_t devno, struct deadline until)
{
	struct detached *write;
	bool ended = true;

	while (ended && (write = hold_write(g, devno))) {
		ended = detached_wait(write, until);
		detached_put(write);
	}
}

/* After the wait, returns the answer, or an error that the filesystem hangs. */
static int guard_result(struct guard_probe *l, const char *path, struct statvfs *ret, int *ret_sys,
                        struct err *err)
{
	WITH_LOCK(&l->guard->lock);
	if (l->done) {
		*ret = l->result;
		*ret_sys = l->sys;
		return 0;
	}
	if (!l->hung)
		count_hung_locked(l->guard, l, 1);
	l->hung = true;
	return refuse_guard_hang(l, path, err);
}

static int guard_request(struct guard *g, enum guard_ask ask, dev_t devno, const char *path,
                         struct statvfs *ret, int *ret_sys, struct err *err)
{
	struct deadline until = deadline_in_ms(*g->wait_ms);
	struct guard_probe *l;
	int rc;

	{
		WITH_LOCK(&g->lock);
		l = guard_hold_locked(g, ask, devno, path, err);
	}
	if (!l)
		return -1;
	IGNORE_RESULT(detached_wait(l->work, until));
	rc = guard_result(l, path, ret, ret_sys, err);
	if (rc == 0 && !*ret_sys && ask == GUARD_THAW)
		await_writes(g, devno, until);
	detached_put(l->work);
	return rc;
}

static int refuse_errno(enum guard_ask ask, int sys, const char *path, struct err *err)
{
	err_sys(err, sys, "%s the filesystem at %s",
	        ask == GUARD_READ ? "read"
	        : is_write(ask)   ? "write to"
	                          : "thaw",
	        path);
	return err_recode(err, ERR_UNAVAILABLE);
}

int guard_read(struct guard *g, dev_t devno, const char *path, struct statvfs *ret, int *ret_sys,
               struct err *err)
{
	return guard_request(g, GUARD_READ, devno, path, ret, ret_sys, err);
}

int guard_statvfs(struct guard *g, dev_t devno, const char *path, struct statvfs *ret,
                  struct err *err)
{
	int sys;

	if (guard_read(g, devno, path, ret, &sys, err))
		return -1;
	return sys ? refuse_errno(GUARD_READ, sys, path, err) : 0;
}

int guard_ask(struct guard *g, enum guard_ask ask, dev_t devno, const char *path, struct err *err)
{
	struct statvfs ignored;
	int sys;

	if (guard_request(g, ask, devno, path, &ignored, &sys, err))
		return -1;
	return sys ? refuse_errno(ask, sys, path, err) : 0;
}
