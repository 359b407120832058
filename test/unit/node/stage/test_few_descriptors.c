/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of the node with fewer descriptors than it needs, one more at each attempt. Each call
 * returns OK, or a code that makes the caller retry. With enough descriptors the same call
 * succeeds, and no descriptor leaks.
 */
#include "test/lib/suite.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/health.h"
#include "node/host/max_volumes.h"
#include "node/mount/mount.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define MOST 60 /* maximum of descriptors for a call: more is a leak */

static struct node_world w;
static struct nvme_disk *disk;

static struct stage_request to_stage(const char *fs_type)
{
	return stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
}

static struct publish_request to_publish(const char *fs_type)
{
	return publish_request(&w, w.target, fs_type, MODE_SINGLE_NODE_WRITER);
}

/* ---- the state before the call ---- */

static void nothing(void)
{
}

static void has_ext4(void)
{
	run_tool("mkfs.ext4 -q %s", disk->loop);
}

static void has_xfs(void)
{
	run_tool("mkfs.xfs -q %s", disk->loop);
}

static void has_btrfs(void)
{
	run_tool("mkfs.btrfs -q %s", disk->loop);
}

static void ask_for_a_check(void)
{
	run_tool("debugfs -w -R 'ssv state 2' %s 2>/dev/null", disk->loop);
}

static void asks_for_a_check(void)
{
	has_ext4();
	ask_for_a_check();
}

static void has_no_driver(void)
{
	has_ext4();
	nvme_world_unbind(&w.nvme, disk);
}

static void staged_as(const char *fs_type)
{
	struct stage_request r = to_stage(fs_type);

	node_world_stage(&w, &r);
}

static void staged(void)
{
	has_ext4();
	staged_as("ext4");
}

static void staged_btrfs(void)
{
	has_btrfs();
	staged_as("btrfs");
}

static void staged_block(void)
{
	staged_as(NULL);
}

static void published_as(const char *fs_type)
{
	struct publish_request r = to_publish(fs_type);

	staged_as(fs_type);
	node_world_publish(&w, &r);
}

static void published(void)
{
	has_ext4();
	published_as("ext4");
}

static void published_block(void)
{
	published_as(NULL);
}

static void xfs_to_grow(void)
{
	has_xfs();
	published_as("xfs");
	nvme_world_resize(disk, 500 * MIB);
}

/* ---- the calls ---- */

static int stage_as(const char *fs_type, struct err *err)
{
	struct stage_request r = to_stage(fs_type);

	return node_stage(&w.node, &r, soon(), err);
}

static int stage_ext4(struct err *err)
{
	return stage_as("ext4", err);
}

static int stage_xfs(struct err *err)
{
	return stage_as("xfs", err);
}

static int stage_btrfs(struct err *err)
{
	return stage_as("btrfs", err);
}

static int stage_block(struct err *err)
{
	return stage_as(NULL, err);
}

static int stage_reader(struct err *err)
{
	struct stage_request r = stage_request(&w, disk, "ext4", MODE_MULTI_NODE_READER_ONLY);

	return node_stage(&w.node, &r, soon(), err);
}

static int publish_as(const char *fs_type, bool read_only, struct err *err)
{
	struct publish_request r = to_publish(fs_type);
	struct stage_request s = to_stage(fs_type);

	r.want = &s.want;
	r.read_only = read_only;
	return node_publish(&w.node, &r, soon(), err);
}

static int publish(struct err *err)
{
	return publish_as("ext4", false, err);
}

static int publish_read_only(struct err *err)
{
	return publish_as("ext4", true, err);
}

static int publish_btrfs(struct err *err)
{
	return publish_as("btrfs", false, err);
}

static int publish_block(struct err *err)
{
	return publish_as(NULL, false, err);
}

static int stats_at(const char *path, struct err *err)
{
	struct volume_stats s;

	return node_stats(&w.node, VOLUME_ID, path, &s, err);
}

static int stats(struct err *err)
{
	return stats_at(w.target, err);
}

static int expand(struct err *err)
{
	struct expand_request r = { .volume_id = VOLUME_ID, .path = w.target };
	uint64_t bytes;

	return node_expand(&w.node, &r, soon(), &bytes, err);
}

/* A failed probe is not a fault of a volume. */
static int sound(const struct health *h, struct err *err)
{
	return h->n ? err_set(err, ERR_DATA_LOSS, "%s: %s", h->v[0].reason, h->v[0].message) : 0;
}

static int volume_health(struct err *err)
{
	struct health h;

	return node_volume_health(&w.node, VOLUME_ID, w.target, w.staging, &h, err)
	               ? -1
	               : sound(&h, err);
}

static int get_info(struct err *err)
{
	struct max_volumes m;

	return max_volumes_answer(&w.node, soon(), &m, err);
}

static int unpublish(struct err *err)
{
	return node_unpublish(&w.node, VOLUME_ID, w.target, err);
}

static int unstage(struct err *err)
{
	return node_unstage(&w.node, VOLUME_ID, w.staging, soon(), err);
}

/* ---- the undo of a successful call ---- */

static void unstage_ok(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(unstage(&err) == 0, "%s", err.msg);
}

static void unstage_for_a_check(void)
{
	unstage_ok();
	ask_for_a_check();
}

static void unstage_and_unbind(void)
{
	unstage_ok();
	nvme_world_unbind(&w.nvme, disk);
}

static void unpublish_ok(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(unpublish(&err) == 0, "%s", err.msg);
}

static void publish_ext4_again(void)
{
	struct publish_request r = to_publish("ext4");

	node_world_publish(&w, &r);
}

static void publish_block_again(void)
{
	struct publish_request r = to_publish(NULL);

	node_world_publish(&w, &r);
}

static void stage_ext4_again(void)
{
	staged_as("ext4");
}

static void stage_btrfs_again(void)
{
	staged_as("btrfs");
}

static const struct {
	const char *what;
	void (*before)(void);
	int (*call)(struct err *err);
	/* back to the state after `before`; NULL: a new world for each attempt */
	void (*undo)(void);
} rows[] = {
	{ "stage a blank volume", nothing, stage_ext4, NULL },
	{ "stage a blank volume as btrfs", nothing, stage_btrfs, NULL },
	{ "stage an ext4", has_ext4, stage_ext4, unstage_ok },
	{ "stage an xfs", has_xfs, stage_xfs, unstage_ok },
	{ "stage an ext4 that asks for a check", asks_for_a_check, stage_ext4,
	  unstage_for_a_check },
	{ "stage an ext4 whose function has no driver", has_no_driver, stage_ext4,
	  unstage_and_unbind },
	{ "stage for a reader", has_ext4, stage_reader, unstage_ok },
	{ "stage raw block", nothing, stage_block, unstage_ok },
	{ "stage what is staged", staged, stage_ext4, nothing },
	{ "stage a btrfs that is staged", staged_btrfs, stage_btrfs, nothing },
	{ "stage raw block that is staged", staged_block, stage_block, nothing },
	{ "publish", staged, publish, unpublish_ok },
	{ "publish read-only", staged, publish_read_only, unpublish_ok },
	{ "publish a btrfs", staged_btrfs, publish_btrfs, unpublish_ok },
	{ "publish raw block", staged_block, publish_block, unpublish_ok },
	{ "publish what is published", published, publish, nothing },
	{ "statistics", published, stats, nothing },
	{ "statistics of raw block", published_block, stats, nothing },
	{ "expand", xfs_to_grow, expand, NULL },
	{ "health", published, volume_health, nothing },
	{ "health of raw block", published_block, volume_health, nothing },
	{ "what the node is", nothing, get_info, NULL },
	{ "unpublish", published, unpublish, publish_ext4_again },
	{ "unpublish raw block", published_block, unpublish, publish_block_again },
	{ "unstage", staged, unstage, stage_ext4_again },
	{ "unstage a btrfs", staged_btrfs, unstage, stage_btrfs_again },
	{ "unstage raw block", staged_block, unstage, staged_block },
	{ "unstage what was never staged", nothing, unstage, nothing },
};

/* ---- the limit ---- */

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static struct rlimit was;

/* The kernel's part of a bind, which needs no descriptors. */
static int write_as_kernel(void *arg, const char *path, const char *text)
{
	const struct sysfs_writer *kernel = arg;
	struct rlimit few;
	int rc;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &few), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	rc = kernel->write(kernel->arg, path, text);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	return rc;
}

static int with_descriptors(unsigned more, int (*call)(struct err *err), struct err *err)
{
	const struct sysfs_writer *kernel = w.node.o.world.writer;
	struct sysfs_writer unlimited = { .write = write_as_kernel, .arg = (void *)kernel };
	struct rlimit few;
	int rc, next = dup(0);

	close(next);
	w.node.o.world.writer = &unlimited;
	few = (struct rlimit) { (rlim_t)next + more, was.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	rc = call(err);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	w.node.o.world.writer = kernel;
	return rc;
}

static bool is_open(enum err_code code)
{
	return code == ERR_CANCELLED || code == ERR_DEADLINE || code == ERR_UNAVAILABLE ||
	       code == ERR_ABORTED;
}

static void begin(int row)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
	rows[row].before();
}

static void end(void)
{
	run_tool("umount -R %s 2>/dev/null; umount -R %s 2>/dev/null; umount %s 2>/dev/null; true",
	         w.target, w.staging, w.block_file);
	node_world_clear(&w);
}

static void undo(int row)
{
	if (rows[row].undo) {
		rows[row].undo();
		return;
	}
	end();
	begin(row);
}

/* The row's call, once with this many descriptors, and once with all. Returns the first result. */
static int attempt(int row, unsigned more)
{
	struct err err = ERR_INIT, again = ERR_INIT;
	unsigned before = open_descriptors();
	int rc = with_descriptors(more, rows[row].call, &err);

	ck_assert_msg(!rc || is_open(err.code), "%s, %u left: %s: %s", rows[row].what, more,
	              err_code_name(err.code), err.msg);
	ck_assert_msg(!rc || strstr(err.msg, "descriptors") || strstr(err.msg, "files"),
	              "%s, %u left: the reason is missing in \"%s\"", rows[row].what, more,
	              err.msg);
	ck_assert_msg(rows[row].call(&again) == 0, "%s, %u left (%s), and again: %s",
	              rows[row].what, more, err.msg, again.msg);
	ck_assert_msg(rows[row].call != unstage || mounts_below(w.nvme.root) == 0,
	              "%s, %u left: a mount stays", rows[row].what, more);
	node_wait_jobs(&w.node, soon());
	ck_assert_msg(open_descriptors() == before, "%s, %u left: %u instead of %u are open",
	              rows[row].what, more, open_descriptors(), before);
	return rc;
}

START_TEST(a_call_that_lacks_descriptors_may_be_repeated)
{
	SKIP_UNLESS_LOOP();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	begin(_i);
	for (unsigned more = 0; attempt(_i, more); more++) {
		ck_assert_msg(more < MOST, "%s needs more than %d", rows[_i].what, MOST);
		undo(_i);
	}
	end();
}
END_TEST

SUITE_TIMEOUT("few descriptors", 120,
              LOOP(a_call_that_lacks_descriptors_may_be_repeated, ARRAY_LEN(rows)));
