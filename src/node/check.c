/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a filesystem is checked: an ext3 or ext4 that will be written, when its superblock
 * asks for a check and nobody else uses the device (e2fsck destroys a filesystem that is mounted).
 * xfs and btrfs are never checked here: mounting them finds their damage.
 */
#include "node/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "node/job.h"
#include "node/mount/fsck.h"

static int check_unused(const struct device *dev, struct err *err)
{
	int fd AUTO(fd) = -1;

	return device_open(dev, O_RDONLY | O_EXCL, &fd, NULL, err);
}

/* Everything the job needs: the call that starts it may end first. */
struct checking {
	int fd;
	char *volume_id;
	char name[sizeof((struct device *)0)->path], pci[sizeof((struct device *)0)->pci];
	char fs_type[32], why[40];
};

static void checking_free(void *arg)
{
	struct checking *c = arg;

	close(c->fd);
	free(c->volume_id);
	free(c);
}

static void log_check(enum log_level level, const char *msg, const struct checking *c,
                      struct log_pair more)
{
	const struct log_pair pairs[] = {
		log_text("volume", c->volume_id),
		log_text("device", c->name),
		log_text("pci", c->pci),
		log_text("fs", c->fs_type),
		more,
	};

	log_pairs(level, msg, pairs, ARRAY_LEN(pairs));
}

static int checking_run(void *arg, struct err *err)
{
	const struct checking *c = arg;
	int64_t since = monotonic_ns();
	char ms[32];

	log_check(LOG_INFO, "checking", c, log_text("why", c->why));
	kill_point("check: decided");
	if (fsck_run(c->fd, c->name, err))
		return err_wrap(err, "the %s on %s is damaged (%s) and is not mounted", c->fs_type,
		                c->name, c->why);
	log_check(LOG_WARNING, "checked", c, log_number("ms", log_ms(since, ms)));
	kill_point("check: e2fsck done");
	return 0;
}

static int run_job(struct node *n, const char *volume_id, const struct device *dev, int fd,
                   const char *fs_type, const char *why, struct deadline d, struct err *err)
{
	struct checking *c = xcalloc(1, sizeof(*c));
	char *what AUTO(free) = xasprintf("e2fsck of %s", dev->path);

	c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	c->volume_id = xstrdup(volume_id);
	snprintf(c->name, sizeof(c->name), "%s", dev->path);
	snprintf(c->pci, sizeof(c->pci), "%s", dev->pci);
	snprintf(c->fs_type, sizeof(c->fs_type), "%s", fs_type);
	snprintf(c->why, sizeof(c->why), "%s", why);
	return job_run(n->jobs,
	               &(struct job_order) { .kind = JOB_CHECK,
	                                     .key = volume_id,
	                                     .what = what,
	                                     .run = checking_run,
	                                     .free = checking_free,
	                                     .arg = c },
	               d, err);
}

int check_filesystem(struct node *n, const char *volume_id, const struct device *dev, int fd,
                     const struct fsprobe *fs, bool read_only, struct deadline d, struct err *err)
{
	struct ext_state state;
	const char *why;

	if (read_only || (!str_eq(fs->type, "ext4") && !str_eq(fs->type, "ext3")))
		return 0;
	if (ext_state_read(fd, dev->path, &state, err))
		return -1;
	why = ext_state_asks(&state);
	if (!why)
		return 0;
	if (dev->read_only)
		return err_set(err, ERR_PRECONDITION,
		               "the %s on %s asks for a check (%s), but the device is read-only",
		               fs->type, dev->path, why);
	if (check_unused(dev, err))
		return err_wrap(err, "the %s on %s asks for a check (%s)", fs->type, dev->path,
		                why);
	return run_job(n, volume_id, dev, fd, fs->type, why, d, err);
}
