/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes may still wait for the lock of a file that its holder has removed. A process that gets
 * such a lock opens the path again.
 */
#include "host/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

#define STEP_MS 50

enum { LOCK_HELD = 1 };

static int host_lock_try(struct host_lock *l, struct err *err)
{
	struct stat st;
	int fd AUTO(fd) = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(err, errno, "open %s", l->path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK || errno == EINTR
		               ? LOCK_HELD
		               : err_sys_of(err, ERR_CALL_LOCK, errno, "lock %s", l->path);
	if (fstat(fd, &st) < 0 || st.st_nlink == 0)
		return LOCK_HELD;
	l->fd = TAKE_FD(fd);
	return 0;
}

int host_lock_take(struct host_lock *l, const char *state_dir, const char *name, const char *what,
                   struct deadline d, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/locks", state_dir);
	int rc;

	if (dir_make(dir, 0700, err))
		return -1;
	l->path = xasprintf("%s/%s", dir, name);
	while ((rc = host_lock_try(l, err)) == LOCK_HELD) {
		struct err passed = ERR_INIT;

		if (deadline_sleep(d, STEP_MS, &passed, ""))
			return err_set(err, ERR_ABORTED,
			               "another command works on %s; retry when it has ended",
			               what);
	}
	return rc;
}

static bool host_lock_is_held(const char *path)
{
	int fd AUTO(fd) = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

bool host_lock_is_taken(const char *state_dir, const char *prefix)
{
	char *dir AUTO(free) = xasprintf("%s/locks", state_dir);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (dir_list(dir, &names, &ignored))
		return false;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);

		if (str_has_prefix(names.v[i], prefix) && host_lock_is_held(path))
			return true;
	}
	return false;
}

void host_lock_release(struct host_lock *l)
{
	if (l->fd >= 0) {
		unlink(l->path);
		close(TAKE_FD(l->fd));
	}
	free(TAKE(l->path));
}
