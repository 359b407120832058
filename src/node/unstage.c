/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unstaging undoes stage.c, also what the Go plugin has staged. The request has only a volume id
 * and a path, so the disk is the one that mountinfo shows there. Refuses before it changes anything
 * when the volume is mounted elsewhere, and for raw block when somebody has the device open
 * exclusively or for writing, or uses a loop device over it. One obstacle shows only after the
 * unmount: another mount namespace still has the filesystem mounted. Then it is mounted again at
 * the staging path, so that the next attempt refuses too. Errors name the processes that hold the
 * volume, as far as this process can see them.
 */
#include "node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "node/busy.h"
#include "node/holders.h"
#include "node/job.h"
#include "node/loops.h"
#include "node/place.h"
#include "node/target.h"

#define RELEASE_WAIT_MS 3000
#define RELEASE_STEP_MS 50

struct unstaging {
	struct node *node;
	const char *volume_id;
	struct mount_table *table;
	struct place place;
	struct device dev;
	bool gone; /* this host has no disk of this number any more */
	bool ours; /* `dev` is the disk, an NVMe namespace that can be opened */
};

static int refuse_while_published(const struct unstaging *u, struct err *err)
{
	const struct mount *m = place_elsewhere(u->table, &u->place, NULL, false, NULL);
	char others[40] = "";
	unsigned more = 0;

	if (!m)
		return 0;
	for (const struct mount *o = m; (o = place_elsewhere(u->table, &u->place, NULL, false, o));)
		more++;
	if (more)
		snprintf(others, sizeof(others), " and %u more place%s", more,
		         more == 1 ? "" : "s");
	return err_set(err, ERR_PRECONDITION,
	               "its disk is still mounted at %s%s: end the pod%s, or unmount it there",
	               m->target, others, more ? "s that use it" : " that uses it");
}

/* ---- who holds it ---- */

static struct holders_query query_of(const struct unstaging *u)
{
	return (struct holders_query) {
		.proc_root = u->node->o.proc_root,
		.disk = u->place.disk,
		.fs = u->place.kind == PLACE_FILESYSTEM ? u->place.m->devno : 0,
	};
}

/* Puts `what` and the names of the device's holders in front of the error. */
static int name_holders(const struct unstaging *u, const char *what, struct deadline d,
                        struct err *err)
{
	struct str text AUTO(str_clear) = STR_INIT(600);
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q = query_of(u);

	q.mounts = true;
	holders_find(&q, d, &h);
	holders_say(&h, &q, u->dev.path, &text);
	return err_wrap(err, "%s%s", what, text.ptr);
}

/* A look that failed, or that was not finished in time, has not found out that nobody is there. */
static int not_known(const struct unstaging *u, const char *why, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "it is not known whether somebody writes to %s: %s",
	               u->dev.path, why);
}

/*
 * Raw block may be open without being claimed. A reader loses nothing when it goes, a writer does.
 * A loop device that nobody uses was left behind by kubelet: it is logged, and the unstage goes on.
 */
static int refuse_while_written(const struct unstaging *u, struct deadline d, struct err *err)
{
	struct strs used AUTO(strs_clear) = STRS_INIT, idle AUTO(strs_clear) = STRS_INIT;
	struct str text AUTO(str_clear) = STR_INIT(600);
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q = query_of(u);
	struct err unasked = ERR_INIT;
	int rc = loops_over(&u->node->o.world, u->table, u->place.disk, &used, &idle, &unasked);

	if (used.n)
		return err_set(
			err, ERR_PRECONDITION,
			"%s is still used through the loop device %s: unmount what is on that "
			"one, then losetup -d",
			u->dev.path, used.v[0]);
	if (rc)
		return not_known(u, unasked.msg, err);
	q.writers = true;
	holders_find(&q, d, &h);
	holders_say(&h, &q, u->dev.path, &text);
	if (h.n)
		return err_set(err, ERR_PRECONDITION, "%s is still open for writing: %s",
		               u->dev.path, text.ptr);
	if (!holders_saw_all(&h))
		return not_known(u, text.ptr, err);
	if (idle.n)
		log_msg(LOG_WARNING,
		        "volume %s is unstaged, but a loop device was left over it: %s; free it "
		        "with losetup -d",
		        u->volume_id, idle.v[0]);
	return 0;
}

/* ---- the device ---- */

/* 0: nobody else has the device open exclusively. Waits a moment for a user to let go. */
static int wait_until_free(const struct unstaging *u, struct deadline d, struct err *err)
{
	struct deadline end = deadline_clamp(d, RELEASE_WAIT_MS);

	for (;;) {
		struct err ignored = ERR_INIT;
		int fd AUTO(fd) = -1;

		if (device_open(&u->dev, O_RDONLY | O_EXCL, &fd, NULL, err) == 0)
			return 0;
		if (err->sys != EBUSY || deadline_sleep(end, RELEASE_STEP_MS, &ignored, ""))
			return -1;
		err_clear(err);
	}
}

/* What is written back later is lost when the function goes. The kernel reports an error once. */
static int write_back(const struct unstaging *u, struct err *err)
{
	int fd AUTO(fd) = -1;

	if (device_open(&u->dev, O_RDONLY, &fd, NULL, err))
		return -1;
	if (fsync(fd) < 0)
		return err_sys(err, errno, "write back %s", u->dev.path);
	return 0;
}

static void make_writable(const struct unstaging *u)
{
	struct err ignored = ERR_INIT;
	int fd AUTO(fd) = -1, off = 0;

	if (device_open(&u->dev, O_RDONLY, &fd, NULL, &ignored) == 0)
		ioctl(fd, BLKROSET, &off);
}

static void mount_again(const struct unstaging *u)
{
	const struct mount *m = u->place.m;
	struct strs options AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	strs_add(&options, m->read_only ? "ro" : "rw");
	if (str_eq(m->fs_type, "xfs"))
		strs_add(&options, "nouuid");
	IGNORE_RESULT(mount_filesystem(u->dev.path, u->place.path, m->fs_type, &options, &ignored));
}

static int unstage_filesystem(struct unstaging *u, struct deadline d, struct err *err)
{
	if (busy_unmount(u->node, &u->place, u->gone, d, err))
		return -1;
	if (!u->ours || wait_until_free(u, d, err) == 0)
		return 0;
	if (err->sys != EBUSY)
		return -1;
	kill_point("unstage: unmounted, but somebody holds the device");
	/* Before it is mounted again: the new mount propagates and would be named itself. */
	name_holders(u,
	             "its filesystem is still mounted in another mount namespace or container, or "
	             "something else holds the device; it stays staged; ",
	             d, err);
	mount_again(u);
	kill_point("unstage: mounted again");
	return -1;
}

static int unstage_block(struct unstaging *u, struct deadline d, struct err *err)
{
	if (u->ours && wait_until_free(u, d, err))
		return err->sys == EBUSY ? name_holders(u, "", d, err) : -1;
	if (u->ours && (refuse_while_written(u, d, err) || write_back(u, err)))
		return -1;
	kill_point("unstage: device written back");
	if (busy_unmount(u->node, &u->place, u->gone, d, err))
		return -1;
	if (u->ours)
		make_writable(u);
	kill_point("unstage: device made writable");
	return 0;
}

/*
 * Which disk is it, and does this host still have it? One that is no NVMe namespace is only
 * unmounted, and one that is dead: nobody can lose anything on it. One that cannot be opened for
 * another reason (no descriptor is left, /dev is not the host's) may be in use.
 */
static int identify(struct unstaging *u, struct err *err)
{
	int fd AUTO(fd) = -1;
	int rc = device_by_number(&u->node->o.world, u->place.disk, &u->dev, err);

	u->gone = rc == DEVICE_ABSENT;
	if (rc == 0 && u->dev.nsid != 0) {
		rc = device_open(&u->dev, O_RDONLY, &fd, NULL, err);
		u->ours = rc == 0;
		if (rc && mount_errno_is_dead(err->sys)) {
			err_clear(err);
			rc = 0;
		}
	}
	if (rc >= 0)
		return 0;
	err_wrap(err, "it is not known whether somebody uses the disk that is mounted at %s",
	         u->place.path);
	return err_recode(err, ERR_UNAVAILABLE);
}

/* The file that raw block was bound over. A crash after the unmount may have left it. */
static int remove_block_file(const char *staging_path, const char *volume_id, struct err *err)
{
	char *file AUTO(free) = place_block_file(staging_path, volume_id);

	return target_remove(file, err);
}

static int unstage(struct unstaging *u, struct deadline d, struct err *err)
{
	struct err ignored = ERR_INIT;
	int rc;

	if (u->place.kind == PLACE_OTHER)
		return busy_unmount(u->node, &u->place, false, d, err);
	if (identify(u, err) || refuse_while_published(u, err))
		return -1;
	kill_point("unstage: nobody else shows it");
	rc = u->place.kind == PLACE_BLOCK ? unstage_block(u, d, err)
	                                  : unstage_filesystem(u, d, err);
	if (rc)
		return -1;
	kill_point("unstage: device let go");
	if (u->ours)
		IGNORE_RESULT(device_release(&u->node->o.world, &u->dev, &ignored));
	return 0;
}

int node_unstage(struct node *n, const char *volume_id, const char *staging_path, struct deadline d,
                 struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct unstaging u = { .node = n, .volume_id = volume_id, .table = &t };
	int rc = job_forget(n->jobs, volume_id, err);

	if (!rc)
		rc = mount_table_read(n->o.proc_root, &t, err);
	if (!rc)
		rc = place_look_staged(&t, staging_path, volume_id, &u.place, err);
	if (!rc && u.place.kind != PLACE_NOTHING)
		rc = unstage(&u, deadline_reserve(d, 1000, 5), err);
	place_clear(&u.place);
	if (!rc)
		rc = remove_block_file(staging_path, volume_id, err);
	kill_point("unstage: done, not answered");
	return rc ? err_wrap(err, "unstage volume %s", volume_id) : 0;
}
