/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that snap-sim owns on disk. The lock file tells a later start that it may remove
 * everything next to it.
 */
#include "test/sim/fabric/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/sim/fabric/daemon.h"
#include "test/sim/fabric/devtree.h"
#include "test/sim/fabric/loopdev.h"

#define LOCK_NAME ".snap-sim.lock"
#define MADE " made this directory"
#define MOUNTINFO_MAX (64 * 1024 * 1024)

/* The mount point of the mount that a path is on; malloc'ed, "?" when it is not known. */
static char *mount_of(const char *path)
{
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;
	struct statx st;

	if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &st) ||
	    file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL, &err))
		return xstrdup("?");
	for (const char *line = text; line && *line;) {
		unsigned long long id = 0;
		char point[1024];

		if (sscanf(line, "%llu %*s %*s %*s %1023s", &id, point) == 2 && id == st.stx_mnt_id)
			return xstrdup(point);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return xstrdup("?");
}

static int check_nodev(const char *path, struct err *err)
{
	char *mount AUTO(free) = NULL;
	struct statvfs fs;

	if (statvfs(path, &fs))
		return err_sys(err, errno, "statvfs %s", path);
	if (!(fs.f_flag & ST_NODEV))
		return 0;
	mount = mount_of(path);
	return err_set(
		err, ERR_PRECONDITION,
		"--state %s is on the mount %s, which has the option nodev: device nodes there cannot be opened; name a directory elsewhere",
		path, mount);
}

static int check_ours(const char *path, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *lock AUTO(free) = xasprintf("%s/" LOCK_NAME, path);

	if (path_exists(lock))
		return 0;
	if (dir_list(path, &names, err))
		return -1;
	if (!names.n)
		return 0;
	return err_set(
		err, ERR_PRECONDITION,
		"--state %s has files that are not snap-sim's (%s ...); it needs a directory of its own",
		path, names.v[0]);
}

static int take_lock(struct state_dir *s, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/" LOCK_NAME, s->path);
	char before[64] = "", own[64];
	ssize_t n;

	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (s->lock_fd < 0)
		return err_sys(err, errno, "open %s", path);
	n = read(s->lock_fd, before, sizeof(before) - 1);
	before[n > 0 ? n : 0] = '\0';
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB)) {
		before[strcspn(before, " \n")] = '\0';
		return err_set(err, ERR_PRECONDITION,
		               "--state %s is in use by another snap-sim (process %s)", s->path,
		               *before ? before : "?");
	}
	/*
	 * The lock file records that a snap-sim created the directory, even if that one was killed.
	 */
	s->created |= strstr(before, MADE) != NULL;
	snprintf(own, sizeof(own), "%d%s\n", (int)getpid(), s->created ? MADE : "");
	if (ftruncate(s->lock_fd, 0) ||
	    pwrite(s->lock_fd, own, strlen(own), 0) != (ssize_t)strlen(own))
		return err_sys(err, errno, "write %s", path);
	return 0;
}

static void remove_leftovers(const struct state_dir *s)
{
	static const char *const keep[] = { LOCK_NAME, NULL };
	char *images AUTO(free) = xasprintf("%s/images", s->path);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	daemon_tidy(s->path);
	if (path_exists(images) && dir_list(images, &names, &err) == 0) {
		for (size_t i = 0; i < names.n; i++) {
			char *image AUTO(free) = xasprintf("%s/%s", images, names.v[i]);

			loopdev_detach_all(image);
		}
	}
	devtree_clear(s->path, keep);
}

int state_dir_open(const char *path, struct state_dir *ret, struct err *err)
{
	char *images AUTO(free) = xasprintf("%s/images", path);

	*ret = (struct state_dir) { .lock_fd = -1, .created = !path_exists(path) };
	if (dir_make(path, 0755, err) || check_nodev(path, err) || check_ours(path, err)) {
		if (ret->created)
			rmdir(path);
		return -1;
	}
	ret->path = realpath(path, NULL);
	if (!ret->path)
		return err_sys(err, errno, "resolve %s", path);
	if (take_lock(ret, err)) {
		if (ret->lock_fd >= 0)
			close(ret->lock_fd);
		free(TAKE(ret->path));
		return -1;
	}
	remove_leftovers(ret);
	return dir_make(images, 0700, err);
}

void state_dir_close(struct state_dir *s)
{
	if (!s->path)
		return;
	remove_leftovers(s);
	devtree_clear(s->path, NULL);
	if (s->created)
		rmdir(s->path);
	close(s->lock_fd);
	free(TAKE(s->path));
}

char *state_dir_image(const struct state_dir *s, const char *ns, const char *volume)
{
	return xasprintf("%s/images/%s.%s", s->path, ns, volume);
}
