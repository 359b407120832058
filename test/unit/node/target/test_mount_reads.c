/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a call reads the mount table, which takes 10 ms with 5,000 mounts: once, and again only
 * after a change, or before a decision for which the first read is too old.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "node/health.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;
static unsigned reads;

/* Replaces the C library's function for the driver. */
int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	reads += strcmp(path, "/proc/self/mountinfo") == 0;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static const char *fs_type;

static int stage(struct err *err)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	return node_stage(&w.node, &r, soon(), err);
}

/* The driver has mounts of its own, and they reach pods. */
static int stage_in_container(struct err *err)
{
	int rc;

	w.node.o.own_mounts = true;
	rc = stage(err);
	w.node.o.own_mounts = false;
	return rc;
}

static int publish_as(bool read_only, struct err *err)
{
	struct publish_request r = publish_request(&w, w.target, fs_type, MODE_SINGLE_NODE_WRITER);

	r.read_only = read_only;
	return node_publish(&w.node, &r, soon(), err);
}

static int publish(struct err *err)
{
	return publish_as(false, err);
}

static int publish_read_only(struct err *err)
{
	return publish_as(true, err);
}

static int stats(struct err *err)
{
	struct volume_stats s;

	return node_stats(&w.node, VOLUME_ID, w.target, &s, err);
}

static int health(struct err *err)
{
	struct health h;

	return node_volume_health(&w.node, VOLUME_ID, w.target, w.staging, &h, err);
}

static int expand(struct err *err)
{
	struct expand_request r = { .volume_id = VOLUME_ID, .path = w.target };
	uint64_t bytes;

	return node_expand(&w.node, &r, soon(), &bytes, err);
}

static int unpublish(struct err *err)
{
	return node_unpublish(&w.node, VOLUME_ID, w.target, err);
}

static int unstage(struct err *err)
{
	return node_unstage(&w.node, VOLUME_ID, w.staging, soon(), err);
}

/* In this order, on one volume. */
static const struct {
	const char *what;
	int (*call)(struct err *err);
	unsigned of_filesystem, of_btrfs, of_block;
} rows[] = {
	/* Before the mount, and after it to verify the disk and the flags. */
	{ "stage", stage, 2, 2, 1 },
	{ "stage again", stage, 1, 1, 1 },
	/*
	 * The bound tree is checked before it is attached; for btrfs only the table has the disk.
	 */
	{ "publish", publish, 1, 2, 1 },
	{ "publish again", publish, 1, 1, 1 },
	{ "statistics", stats, 1, 1, 1 },
	{ "health", health, 1, 1, 1 },
	{ "expand", expand, 1, 1, 1 },
	{ "unpublish", unpublish, 1, 1, 1 },
	{ "unpublish again", unpublish, 1, 1, 1 },
	{ "publish read-only", publish_read_only, 1, 2, 1 },
	{ "unpublish", unpublish, 1, 1, 1 },
	{ "unstage", unstage, 1, 1, 1 },
	{ "unstage again", unstage, 1, 1, 1 },
	/*
	 * In a container there is one more read before the wait for the device, to verify that a
	 * pod would see the mount.
	 */
	{ "stage in a container", stage_in_container, 3, 3, 2 },
	{ "stage again in a container", stage_in_container, 2, 2, 2 },
	{ "unstage", unstage, 1, 1, 1 },
};

static const char *const types[] = { "ext4", "xfs", "btrfs", NULL };

START_TEST(the_mounts_are_listed_once_and_after_a_change)
{
	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	run_tool("mount --make-rshared /");
	disk = nvme_world_add(&w.nvme, 1, UUID, 400 * MIB);
	fs_type = types[_i];
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned most = !fs_type                        ? rows[i].of_block
		                : strcmp(fs_type, "btrfs") == 0 ? rows[i].of_btrfs
		                                                : rows[i].of_filesystem;
		struct err err = ERR_INIT;
		int rc;

		reads = 0;
		rc = rows[i].call(&err);
		ck_assert_msg(rc == 0, "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(reads && reads <= most, "%s, %s: %u times instead of %u",
		              rows[i].what, fs_type ? fs_type : "raw block", reads, most);
	}
	node_world_clear(&w);
}
END_TEST

SUITE("mount reads", LOOP(the_mounts_are_listed_once_and_after_a_change, ARRAY_LEN(types)));
