/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a filesystem is checked: an ext3 or ext4 that will be written, if its superblock
 * requests a check and the device is not in use (e2fsck destroys a mounted filesystem). xfs and
 * btrfs are never checked here, because mounting them detects damage.
 *
 * A record (disk_record.h) exists while e2fsck runs. An e2fsck that was killed may already have
 * cleared the request in the superblock. Because of the record, the next stage checks the whole
 * filesystem.
 *
 * Between the decision and e2fsck, the job waits for a turn and syncs the record, and the disk's
 * content may change. Therefore the decision is verified immediately before e2fsck runs; otherwise
 * e2fsck could write repairs of an old ext4 over newer data.
 */
#include "node/disk/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "node/work/job.h"
#include "node/mount/fsck.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"

/* All data of the job, because the call that starts it may end first. */
struct checking {
	int fd;
	char *volume_id;
	struct device dev;
	struct fsprobe fs;
	char why[48];
	bool whole;
	char *record_path, *record;
};

static void checking_free(void *arg)
{
	struct checking *c = arg;

	close(c->fd);
	free(c->volume_id);
	free(c->record_path);
	free(c->record);
	free(c);
}

static void log_check(enum log_level level, const char *msg, const struct checking *c,
                      struct log_pair more)
{
	const struct log_pair pairs[] = {
		log_text("volume", c->volume_id),
		log_text("device", c->dev.path),
		log_text("pci", c->dev.pci),
		log_text("fs", c->fs.type),
		more,
	};

	log_pairs(level, msg, pairs, ARRAY_LEN(pairs));
}

/* Verifies that the device still has the filesystem to be checked, and is unused. */
static int check_recheck(const struct checking *c, struct err *err)
{
	struct fsprobe now;

	if (fsprobe_fd(c->fd, c->dev.path, &now, err))
		return -1;
	if (!str_eq(now.type, c->fs.type) || !str_eq(now.uuid, c->fs.uuid)) {
		metric_add(METRIC_REFUSALS, 1, LABELS("changed"));
		return err_set(err, ERR_PRECONDITION,
		               "%s is not checked: another process has written to it since its "
		               "first probe, and now it contains %s",
		               c->dev.path, now.found);
	}
	if (device_check_unused(&c->dev, err) == 0)
		return 0;
	return err_wrap(err, "the %s on %s asks for a check (%s)", c->fs.type, c->dev.path, c->why);
}

static int checking_run(void *arg, struct err *err)
{
	const struct checking *c = arg;
	int64_t since = monotonic_ns();
	struct err ignored = ERR_INIT;
	bool damaged;
	char ms[32];
	int rc;

	log_check(LOG_INFO, "checking", c, log_text("why", c->why));
	kill_point("check: decided");
	if (state_file_write_synced(c->record_path, c->record, err))
		return err_wrap(err, "%s is not checked: its record cannot be written",
		                c->dev.path);
	kill_point("check: record written");
	if (check_recheck(c, err)) {
		if (!c->whole)
			IGNORE_RESULT(state_file_remove(c->record_path, &ignored));
		return -1;
	}
	rc = fsck_run(c->fd, c->dev.path, c->whole, err);
	metric_observe(METRIC_CHECKS, monotonic_ns() - since,
	               LABELS(c->fs.type, rc ? "failed" : "ok"));
	damaged = rc && err->code == ERR_PRECONDITION && err->sys != EOPNOTSUPP;
	if (damaged)
		metric_add(METRIC_REFUSALS, 1, LABELS("damaged"));
	kill_point("check: e2fsck done");
	/* After any other error e2fsck has not completed, so the record stays. */
	if (!rc || err->code == ERR_PRECONDITION)
		IGNORE_RESULT(state_file_remove(c->record_path, &ignored));
	kill_point("check: record removed");
	if (rc)
		return err_wrap(err, "the %s on %s %s (%s) and is not mounted", c->fs.type,
		                c->dev.path, damaged ? "is damaged" : "could not be checked",
		                c->why);
	log_check(LOG_WARNING, "checked", c, log_number("ms", log_ms(since, ms)));
	return 0;
}

static struct disk_record record_of(const struct check_request *r)
{
	return (struct disk_record) {
		.volume_id = r->volume_id,
		.dev = r->dev,
		.fs_type = r->fs->type,
		.diskseq = r->diskseq,
		.attachment = r->attachment,
	};
}

static int check_run_job(struct node *n, const struct check_request *r, const char *why, bool whole,
                         struct deadline d, struct err *err)
{
	const struct disk_record record = record_of(r);
	struct checking *c;
	char *what AUTO(free) = xasprintf("e2fsck of %s", r->dev->path);
	char *text AUTO(free) = NULL;
	int fd;

	if (disk_record_text(n, DISK_RECORD_E2FSCK, &record, &text, err))
		return -1;
	fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		err_sys(err, errno, "keep %s open for e2fsck", r->dev->path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	c = xcalloc(1, sizeof(*c));
	c->fd = fd;
	c->volume_id = xstrdup(r->volume_id);
	c->whole = whole;
	c->record_path = disk_record_path(n, r->volume_id, DISK_RECORD_E2FSCK);
	c->record = TAKE(text);
	c->dev = *r->dev;
	c->fs = *r->fs;
	snprintf(c->why, sizeof(c->why), "%s", why);
	return job_run(n->jobs,
	               &(struct job_order) { .kind = JOB_CHECK,
	                                     .key = r->volume_id,
	                                     .what = what,
	                                     .run = checking_run,
	                                     .free = checking_free,
	                                     .arg = c },
	               d, err);
}

int check_filesystem(struct node *n, const struct check_request *r, struct deadline d,
                     struct err *err)
{
	const struct disk_record record = record_of(r);
	const struct device *dev = r->dev;
	struct ext_state state;
	const char *why;
	int rc;

	if (r->read_only || (!str_eq(r->fs->type, "ext4") && !str_eq(r->fs->type, "ext3")))
		return 0;
	if (ext_state_read(r->fd, dev->path, &state, err))
		return -1;
	rc = disk_record_matches(n, DISK_RECORD_E2FSCK, &record, err);
	if (rc < 0)
		return err_wrap(err, "read the record of this volume's last check");
	why = rc == 0 ? "an earlier check was interrupted" : ext_state_asks(&state);
	if (!why)
		return 0;
	if (dev->read_only)
		return err_set(err, ERR_PRECONDITION,
		               "the %s on %s asks for a check (%s), but the device is read-only",
		               r->fs->type, dev->path, why);
	if (device_check_unused(dev, err))
		return err_wrap(err, "the %s on %s asks for a check (%s)", r->fs->type, dev->path,
		                why);
	return check_run_job(n, r, why, rc == 0, d, err);
}
