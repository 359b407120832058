/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods with `hostUsers: false`: the container runtime maps the owners of a published filesystem by
 * mount_setattr(2), here with the driver's own mount. If a filesystem does not support that, such a
 * pod does not start.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/share_world.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

#define FIRST_ID 100000 /* the host's id of the pod's root */

static struct share_world w;

static void write_map(pid_t child, const char *file)
{
	char *path AUTO(free) = xasprintf("/proc/%d/%s", child, file);
	int fd AUTO(fd) = open(path, O_WRONLY | O_CLOEXEC);

	ck_assert_int_gt(dprintf(fd, "0 %d 65536\n", FIRST_ID), 0);
}

/* A descriptor of a user namespace like a pod's. */
static int user_namespace(void)
{
	char *path AUTO(free) = NULL;
	int ready[2], fd;
	pid_t child;
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	ck_assert_int_eq(close(ready[1]), 0);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	write_map(child, "uid_map");
	write_map(child, "gid_map");
	path = xasprintf("/proc/%d/ns/user", child);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(ready[0]);
	return fd;
}

/* The steps of runc for a volume of the pod. 0, or errno; *ret: the mapped mount. */
static int map_mount(const char *path, int *ret)
{
	int users AUTO(fd) = user_namespace();
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)users };

	*ret = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	ck_assert_int_ge(*ret, 0);
	return syscall(SYS_mount_setattr, *ret, "", AT_EMPTY_PATH, &attr, sizeof(attr)) ? errno : 0;
}

/*
 * Through the mapped mount, root's files are the pod's, and the pod's files are root's on the disk.
 */
static void check_owners(const char *target, int mapped)
{
	char *path AUTO(free) = xasprintf("%s/pods-file", target);
	struct stat st;
	int fd;

	ck_assert_int_eq(fstatat(mapped, "roots-file", &st, 0), 0);
	ck_assert_uint_eq(st.st_uid, FIRST_ID);
	setfsgid(FIRST_ID);
	setfsuid(FIRST_ID);
	fd = openat(mapped, "pods-file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	setfsuid(0);
	setfsgid(0);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert(st.st_uid == 0 && st.st_gid == 0);
}

static const struct {
	const char *fs_type;
	uint64_t mib;
	int errnum;
} kinds[] = {
	{ "ext4", 64, 0 },
	{ "xfs", 320, 0 },
	{ "btrfs", 256, 0 },
	/* The kernel's ext4 module has the flag for its type ext4 only. */
	{ "ext3", 64, EINVAL },
};

START_TEST(a_filesystem_is_mapped_to_the_users_of_a_pod_or_refuses)
{
	char *file AUTO(free) = NULL;
	struct publish_request p;
	struct stage_request r;
	struct nvme_disk *d;
	int mapped AUTO(fd) = -1;

	SKIP_UNDER_TSAN();
	SKIP_UNLESS_LOOP();
	share_world_init(&w);
	d = nvme_world_add(&w.node.nvme, 1, "11111111-aaaa-4bbb-8ccc-000000000001",
	                   kinds[_i].mib * MIB);
	r = stage_request(&w.node, d, kinds[_i].fs_type, MODE_SINGLE_NODE_WRITER);
	p = publish_request(&w.node, w.node.target, kinds[_i].fs_type, MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w.node, &r);
	node_world_publish(&w.node, &p);
	file = xasprintf("%s/roots-file", w.node.target);
	run_tool("touch %s", file);
	ck_assert_int_eq(map_mount(w.node.target, &mapped), kinds[_i].errnum);
	if (!kinds[_i].errnum)
		check_owners(w.node.target, mapped);
	close(mapped);
	mapped = -1;
	share_world_clear(&w);
}
END_TEST

/* A server without FUSE_ALLOW_IDMAP, such as snap-share. */
START_TEST(a_share_whose_server_does_not_allow_it_is_not_mapped)
{
	enum access_mode mode = MODE_MULTI_NODE_MULTI_WRITER;
	struct publish_request p;
	struct stage_request r;
	int mapped AUTO(fd) = -1;

	SKIP_UNDER_TSAN();
	SKIP_UNLESS_FUSE();
	share_world_init(&w);
	r = share_stage_request(&w, share_world_add(&w, "tag-a"), mode);
	p = share_publish_request(&w, w.node.target, mode);
	node_world_stage(&w.node, &r);
	node_world_publish(&w.node, &p);
	ck_assert_int_eq(map_mount(w.node.target, &mapped), EINVAL);
	close(mapped);
	mapped = -1;
	share_world_clear(&w);
}
END_TEST

SUITE_AROUND("user_namespace", 60, mount_helper_install, mount_helper_remove,
             LOOP(a_filesystem_is_mapped_to_the_users_of_a_pod_or_refuses, ARRAY_LEN(kinds)),
             a_share_whose_server_does_not_allow_it_is_not_mapped);
