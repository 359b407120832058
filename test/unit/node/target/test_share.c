/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-fs volumes on the node, from stage to unstage, over folders that a FUSE daemon serves: how
 * they are proven, mounted and published, and the effect of a server that dies, hangs or is
 * replaced.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/target/guard.h"
#include "node/health.h"
#include "node/mount/mount.h"
#include "node/host/recover.h"
#include "node/target/share.h"
#include "test/lib/share_world.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

static struct share_world w;
static struct share_device *dev;

static void begin(void)
{
	share_world_init(&w);
	dev = share_world_add(&w, "tag-a");
}

static struct stage_request request(enum access_mode mode)
{
	return share_stage_request(&w, dev, mode);
}

static void stage_ok(const struct stage_request *r)
{
	node_world_stage(&w.node, r);
}

/* A writer's volume, staged with all defaults. */
static void stage(void)
{
	struct stage_request r = request(MODE_MULTI_NODE_MULTI_WRITER);

	stage_ok(&r);
}

static void refused(const struct stage_request *r, enum err_code code, const char *says)
{
	char *before AUTO(free) = kubelet_tree(&w.node), *after AUTO(free) = NULL;
	size_t mounts = mounts_below(w.node.kubelet_dir);
	struct err err = ERR_INIT;

	ck_assert_int_eq(node_stage(&w.node.node, r, soon(), &err), -1);
	ck_assert_msg(err.code == code && strstr(err.msg, says), "%s: %s", err_code_name(err.code),
	              err.msg);
	after = kubelet_tree(&w.node);
	ck_assert_str_eq(after, before);
	ck_assert_uint_eq(mounts_below(w.node.kubelet_dir), mounts);
	ck_assert_uint_eq(mounts_below(w.node.plugin_dir), 0);
}

/* flag NULL: none. kubelet sends the mount flags with each call. */
static int publish_with(const char *target, enum access_mode mode, const char *flag, bool read_only,
                        struct err *err)
{
	struct stage_request s = request(mode);
	struct publish_request p = share_publish_request(&w, target, mode);

	p.want = &s.want;
	p.read_only = read_only;
	p.cap.mount_flags = &flag;
	p.cap.n_mount_flags = flag ? 1 : 0;
	return node_publish(&w.node.node, &p, soon(), err);
}

static int publish(const char *target, enum access_mode mode, bool read_only, struct err *err)
{
	return publish_with(target, mode, NULL, read_only, err);
}

static void publish_ok(const char *target)
{
	struct err err = ERR_INIT;

	ck_assert_msg(publish(target, MODE_MULTI_NODE_MULTI_WRITER, false, &err) == 0, "%s",
	              err.msg);
}

static void unpublish_ok(const char *target)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unpublish(&w.node.node, VOLUME_ID, target, &err) == 0, "%s", err.msg);
}

static void unstage_ok(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unstage(&w.node.node, VOLUME_ID, w.node.staging, soon(), &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.node.kubelet_dir), 0);
	ck_assert_uint_eq(mounts_below(w.node.plugin_dir), 0);
}

static void unstage_refused(enum err_code code, const char *says)
{
	struct err err = ERR_INIT;

	node_world_impatient(&w.node);
	ck_assert_int_eq(node_unstage(&w.node.node, VOLUME_ID, w.node.staging, soon(), &err), -1);
	node_world_patient(&w.node);
	ck_assert_msg(err.code == code && strstr(err.msg, says), "%s: %s", err_code_name(err.code),
	              err.msg);
}

/* The mount at the path; valid until the next call. NULL: nothing is mounted there. */
static const struct mount *mount_seen(const char *path)
{
	static struct mount_table t = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	mount_table_clear(&t);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	return mount_at(&t, path);
}

/* ---- normal operation ---- */

START_TEST(a_share_is_staged_once_and_pods_write_into_its_folder)
{
	char *before AUTO(free) = NULL, *after AUTO(free) = NULL;
	const struct mount *m;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	before = kubelet_tree(&w.node);
	stage();
	stage();
	ck_assert(dev->bound);
	ck_assert_uint_eq(mounts_below(w.node.kubelet_dir), 1);
	ck_assert_uint_eq(mounts_below(w.node.plugin_dir), 0);
	m = mount_seen(w.node.staging);
	ck_assert_ptr_nonnull(m);
	ck_assert_str_eq(m->source, "tag-a");
	ck_assert(!m->read_only);

	publish_ok(w.node.target);
	publish_ok(w.node.target);
	publish_ok(w.node.other_target);
	run_tool("echo one > %s/one && grep -q one %s/one && grep -q one %s/one", w.node.target,
	         w.node.other_target, dev->folder);
	unstage_refused(ERR_PRECONDITION, "its share is still mounted at");
	unpublish_ok(w.node.target);
	unstage_refused(ERR_PRECONDITION, w.node.other_target);
	unpublish_ok(w.node.other_target);
	unpublish_ok(w.node.other_target);
	unstage_ok();
	unstage_ok();
	run_tool("rmdir %s/kubelet/pods/p1 %s/kubelet/pods/p2 %s/kubelet/pods", w.node.nvme.root,
	         w.node.nvme.root, w.node.nvme.root);
	after = kubelet_tree(&w.node);
	ck_assert_str_eq(after, before);
	run_tool("grep -q one %s/one", dev->folder);
	share_world_clear(&w);
}
END_TEST

START_TEST(read_only_comes_from_the_mode_the_flags_or_the_pod)
{
	static const struct {
		enum access_mode mode;
		const char *flag;
		bool pod, staged_ro;
	} rows[] = {
		{ MODE_MULTI_NODE_READER_ONLY, NULL, false, true },
		{ MODE_SINGLE_NODE_READER_ONLY, "rw", false, true },
		{ MODE_SINGLE_NODE_WRITER, "ro", false, true },
		{ MODE_MULTI_NODE_MULTI_WRITER, NULL, true, false },
	};

	SKIP_UNLESS_ROOT("mounts");
	begin();
	run_tool("echo x > %s/x", dev->folder);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stage_request r = request(rows[i].mode);
		struct err err = ERR_INIT;

		r.cap.mount_flags = &rows[i].flag;
		r.cap.n_mount_flags = rows[i].flag ? 1 : 0;
		stage_ok(&r);
		stage_ok(&r);
		ck_assert_int_eq(mount_seen(w.node.staging)->read_only, rows[i].staged_ro);
		ck_assert_msg(publish_with(w.node.target, rows[i].mode, rows[i].flag, rows[i].pod,
		                           &err) == 0,
		              "%s", err.msg);
		ck_assert(mount_seen(w.node.target)->read_only);
		run_tool("cat %s/x && ! touch %s/y 2>/dev/null", w.node.target, w.node.target);
		unpublish_ok(w.node.target);
		unstage_ok();
	}
	share_world_clear(&w);
}
END_TEST

START_TEST(mount_flags_reach_the_mount_and_others_are_refused)
{
	static const char *const flags[] = { "noatime,nosuid", "nodev" };
	static const struct {
		const char *flag, *says;
	} rows[] = {
		{ "errors=remount-ro", "not an option for virtiofs" },
		{ "nouuid", "not an option for virtiofs" },
		{ "rootmode=40000", "not an option for virtiofs" },
		{ "user_id=0", "not an option for virtiofs" },
		{ "bind", "the driver makes its own" },
	};
	struct stage_request r;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		r.cap.mount_flags = &rows[i].flag;
		r.cap.n_mount_flags = 1;
		refused(&r, ERR_INVALID, rows[i].says);
	}
	r.cap.mount_flags = flags;
	r.cap.n_mount_flags = ARRAY_LEN(flags);
	stage_ok(&r);
	stage_ok(&r);
	ck_assert_str_eq(mount_seen(w.node.staging)->options, "rw,nosuid,nodev,noatime");

	/* A repeated call with other flags differs. */
	r.cap.n_mount_flags = 1;
	refused(&r, ERR_EXISTS, "nodev differs");
	r.cap.n_mount_flags = 0;
	r.cap.mode = MODE_MULTI_NODE_READER_ONLY;
	refused(&r, ERR_EXISTS, "already staged read-write, not read-only");
	share_world_clear(&w);
}
END_TEST

START_TEST(two_volumes_live_side_by_side)
{
	struct share_device *second;
	struct stage_request r;
	struct err err = ERR_INIT;
	char *path AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	second = share_world_add(&w, "tag-b");
	path = xasprintf("%s/second", w.node.kubelet_dir);
	stage();
	r = share_stage_request(&w, second, MODE_SINGLE_NODE_WRITER);
	r.volume_id = "pvc-2";
	r.staging_path = path;
	stage_ok(&r);
	run_tool("echo a > %s/file && echo b > %s/file && grep -q a %s/file && grep -q b %s/file",
	         w.node.staging, path, dev->folder, second->folder);
	ck_assert_msg(node_unstage(&w.node.node, VOLUME_ID, w.node.staging, soon(), &err) == 0,
	              "%s", err.msg);
	run_tool("grep -q b %s/file", path);
	ck_assert_msg(node_unstage(&w.node.node, "pvc-2", path, soon(), &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.node.kubelet_dir), 0);
	share_world_clear(&w);
}
END_TEST

START_TEST(a_read_write_once_pod_volume_gets_one_target)
{
	struct stage_request r;
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	r = request(MODE_SINGLE_NODE_SINGLE_WRITER);
	stage_ok(&r);
	ck_assert_int_eq(publish(w.node.target, r.cap.mode, false, &err), 0);
	ck_assert_int_eq(publish(w.node.target, r.cap.mode, false, &err), 0);
	ck_assert_int_eq(publish(w.node.other_target, r.cap.mode, false, &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	ck_assert_msg(strstr(err.msg, w.node.target) != NULL, "%s", err.msg);
	unpublish_ok(w.node.target);
	err_clear(&err);
	ck_assert_int_eq(publish(w.node.other_target, r.cap.mode, false, &err), 0);
	share_world_clear(&w);
}
END_TEST

/* The Go plugin stages nothing and mounts the tag at each target. */
START_TEST(what_the_go_plugin_mounted_at_the_target_is_unpublished_and_unstaged)
{
	SKIP_UNLESS_ROOT("mounts");
	begin();
	share_world_bind(&w, dev);
	run_tool("mkdir -p %s && mount -i --bind %s/tag-a %s", w.node.target, w.tags,
	         w.node.target);
	ck_assert_str_eq(mount_seen(w.node.target)->source, "tag-a");
	unpublish_ok(w.node.target);
	ck_assert_ptr_null(mount_seen(w.node.target));
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

START_TEST(a_share_is_measured_found_healthy_and_has_nothing_to_grow)
{
	struct expand_request r = { .volume_id = VOLUME_ID, .required = 1ULL << 50 };
	struct volume_stats stats;
	struct health health;
	struct err err = ERR_INIT;
	uint64_t bytes = 1;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	publish_ok(w.node.target);
	ck_assert_msg(node_stats(&w.node.node, VOLUME_ID, w.node.target, &stats, &err) == 0, "%s",
	              err.msg);
	ck_assert(!stats.block && stats.total_bytes > 0 && stats.total_inodes > 0);
	ck_assert_int_eq(
		node_volume_health(&w.node.node, VOLUME_ID, w.node.target, NULL, &health, &err), 0);
	ck_assert_uint_eq(health.n, 0);
	r.path = w.node.target;
	ck_assert_msg(node_expand(&w.node.node, &r, soon(), &bytes, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(bytes, 0);
	share_world_clear(&w);
}
END_TEST

/* ---- the owner of a tag ---- */

START_TEST(a_tag_that_another_device_has_is_not_mounted)
{
	struct share_device *second;
	struct stage_request r;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	if (_i)
		share_world_unprove(&w);
	second = share_world_add(&w, "tag-b");
	share_world_bind(&w, second);
	/* The attachment of the first names the tag of the second. */
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	r.want.tag = "tag-b";
	refused(&r, ERR_PRECONDITION,
	        _i ? "another device of this host has the tag" : "is that of virtio2 of");
	ck_assert(!dev->bound);
	share_world_clear(&w);
}
END_TEST

START_TEST(a_tag_that_nobody_can_show_is_proven_by_its_absence_before)
{
	struct share_device *second;
	struct stage_request r;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	share_world_unprove(&w);
	second = share_world_add(&w, "tag-b");
	share_world_bind(&w, second);
	stage();
	/* Even by a driver that has not staged it itself. */
	share_world_restart(&w);
	stage();
	unstage_ok();

	/* It had its driver before, and another device has one as well. */
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	refused(&r, ERR_PRECONDITION, "not verify that the virtio-fs tag tag-a belongs to");
	share_world_unbind(&w, second);
	stage();
	unstage_ok();
	share_world_bind(&w, second);
	share_world_unbind(&w, dev);
	stage();
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

START_TEST(a_share_that_is_staged_for_another_volume_is_not_staged_again)
{
	struct stage_request r;
	char *path AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	path = xasprintf("%s/a/globalmount", w.node.kubelet_dir);
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	r.volume_id = "pvc-2";
	r.staging_path = path;
	stage_ok(&r);
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	refused(&r, ERR_PRECONDITION, "staged for another volume at");
	r = request(MODE_MULTI_NODE_READER_ONLY);
	refused(&r, ERR_PRECONDITION, "staged for another volume at");
	share_world_clear(&w);
}
END_TEST

START_TEST(a_tag_with_another_share_behind_it_is_not_taken_for_the_staged_one)
{
	struct share other = { 0 };
	struct stage_request r;
	char *at AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	/* The same tag leads to another superblock, while the first one still answers. */
	at = xasprintf("%s/tag-a", w.tags);
	run_tool("umount -l %s", at);
	share_start(&other, "tag-a", dev->folder, at);
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	refused(&r, ERR_PRECONDITION, "a share other than the one that the virtio-fs tag");
	share_end(&other);
	share_world_clear(&w);
}
END_TEST

START_TEST(what_is_something_else_at_the_staging_path_is_left_alone)
{
	struct nvme_disk *disk;
	struct stage_request r, d;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	disk = nvme_world_add(&w.node.nvme, 1, "", 64 * MIB);
	d = stage_request(&w.node, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	r = request(MODE_SINGLE_NODE_WRITER);
	/* A disk at the path, a share requested. */
	stage_ok(&d);
	refused(&r, ERR_PRECONDITION, "already shows ext4");
	unstage_ok();
	/* A share at the path, alive or dead, and a disk requested. */
	stage_ok(&r);
	refused(&d, ERR_PRECONDITION, "already shows fuse.virtiofs of the tag tag-a");
	ck_assert_int_eq(publish(w.node.target, MODE_SINGLE_NODE_WRITER, false, &err), 0);
	unpublish_ok(w.node.target);
	unstage_ok();
	run_tool("mount -t tmpfs none %s", w.node.staging);
	refused(&r, ERR_PRECONDITION, "already shows tmpfs");
	share_world_clear(&w);
}
END_TEST

START_TEST(a_staged_share_is_published_only_as_what_it_is)
{
	struct stage_request r;
	struct publish_request p;
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	p = share_publish_request(&w, w.node.target, MODE_MULTI_NODE_MULTI_WRITER);
	ck_assert_msg(node_publish(&w.node.node, &p, soon(), &err) == 0, "%s", err.msg);
	unpublish_ok(w.node.target);

	r.want.tag = "tag-z";
	p.want = &r.want;
	ck_assert_int_eq(node_publish(&w.node.node, &p, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "but the volume is the tag"),
	              "%s", err.msg);
	err_clear(&err);
	r.want = (struct device_want) { .volume_id = "", .pci = "0000:26:00.1", .nsid = 1 };
	ck_assert_int_eq(node_publish(&w.node.node, &p, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "as a filesystem"), "%s",
	              err.msg);
	err_clear(&err);
	p.want = NULL;
	p.cap.type = ACCESS_BLOCK;
	ck_assert_int_eq(node_publish(&w.node.node, &p, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "as raw block"), "%s",
	              err.msg);
	share_world_clear(&w);
}
END_TEST

/* ---- servers that die or hang ---- */

START_TEST(a_dead_share_is_said_to_be_dead_and_everything_ends)
{
	struct health health;
	struct volume_stats stats;
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	publish_ok(w.node.target);
	if (_i)
		share_world_unplug(&w, dev);
	else
		share_signal(&dev->daemon, SIGKILL);
	ck_assert_int_eq(
		node_volume_health(&w.node.node, VOLUME_ID, w.node.target, NULL, &health, &err), 0);
	ck_assert_uint_eq(health.n, 1);
	ck_assert_str_eq(health.v[0].reason, "FilesystemDead");
	ck_assert_int_eq(node_stats(&w.node.node, VOLUME_ID, w.node.target, &stats, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	ck_assert_int_eq(publish(w.node.other_target, MODE_MULTI_NODE_MULTI_WRITER, false, &err),
	                 -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "no longer exists"), "%s",
	              err.msg);
	unpublish_ok(w.node.target);
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

START_TEST(a_share_whose_device_came_anew_is_staged_anew)
{
	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	publish_ok(w.node.target);
	share_world_unplug(&w, dev);
	/* The tag now leads to another folder, or to the same one again. */
	if (_i) {
		free(dev->folder);
		dev->folder = xasprintf("%s/another", w.node.nvme.root);
		run_tool("mkdir %s", dev->folder);
	}
	share_world_plug(&w, dev);
	stage();
	run_tool("echo new > %s/new && grep -q new %s/new", w.node.staging, dev->folder);
	ck_assert_uint_eq(mounts_below(w.node.staging), 1);
	/* The pod's own mount is dead; a new publish of it replaces it. */
	publish_ok(w.node.target);
	run_tool("grep -q new %s/new", w.node.target);
	unpublish_ok(w.node.target);
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

static _Atomic int answered_errno, looks;

static int answer_errno(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	looks++;
	errno = answered_errno;
	return answered_errno ? -1 : 0;
}

static const char *health_reason(void)
{
	static struct health health;
	struct err err = ERR_INIT;

	ck_assert_msg(node_volume_health(&w.node.node, VOLUME_ID, w.node.staging, NULL, &health,
	                                 &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_le(health.n, 1);
	return health.n ? health.v[0].reason : "";
}

START_TEST(an_errno_of_the_server_is_an_answer)
{
	static const struct {
		int sys;
		const char *reason;
	} rows[] = {
		{ EACCES, "" },
		{ EPERM, "" },
		{ ENOSYS, "" },
		{ EOPNOTSUPP, "" },
		{ EIO, "ShareAnswersError" },
		{ ESTALE, "ShareAnswersError" },
		{ ENOENT, "ShareAnswersError" },
		{ EMFILE, "ShareAnswersError" },
		{ EAGAIN, "ShareAnswersError" },
		{ EINTR, "ShareAnswersError" },
		{ ENOMEM, "ShareAnswersError" },
		{ ENOSPC, "ShareAnswersError" },
		{ EREMOTEIO, "ShareAnswersError" },
		{ EHOSTDOWN, "ShareAnswersError" },
		/* the same errno as the guard's own, but from the server */
		{ ETIMEDOUT, "ShareAnswersError" },
		{ 511, "ShareAnswersError" }, /* the largest that FUSE permits */
	};
	struct volume_stats stats;
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	guard_set_statvfs(w.node.node.guard, answer_errno);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		answered_errno = rows[i].sys;
		stage();
		stage(); /* a repeated call */
		publish_ok(w.node.target);
		ck_assert_msg(str_eq(health_reason(), rows[i].reason), "errno %d: %s", rows[i].sys,
		              health_reason());
		ck_assert_int_eq(node_stats(&w.node.node, VOLUME_ID, w.node.target, &stats, &err),
		                 -1);
		ck_assert_msg(err.code == ERR_UNAVAILABLE, "errno %d: %s: %s", rows[i].sys,
		              err_code_name(err.code), err.msg);
		err_clear(&err);
		unpublish_ok(w.node.target);
		unstage_ok();
	}
	share_world_clear(&w);
}
END_TEST

/* After the answer that starts the unmount, the server may hang at the next request. */
START_TEST(the_last_unpublish_asks_the_server_once)
{
	static const int rows[] = { 0, ESTALE, ENOTCONN };

	SKIP_UNLESS_ROOT("mounts");
	begin();
	guard_set_statvfs(w.node.node.guard, answer_errno);
	stage();
	publish_ok(w.node.target);
	run_tool("umount -i %s %s", w.node.staging, dev->daemon.mountpoint);
	answered_errno = rows[_i];
	looks = 0;
	unpublish_ok(w.node.target);
	ck_assert_int_eq(looks, 1);
	ck_assert_uint_eq(mounts_below(w.node.kubelet_dir), 0);
	share_world_clear(&w);
}
END_TEST

START_TEST(a_share_whose_root_cannot_be_listed_is_served_as_any_other)
{
	static const struct rlimit none = { 3, 3 };
	struct volume_stats stats;
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	/* The server has no descriptor for opendir(3), and needs none for statfs(2). */
	ck_assert_int_eq(prlimit(dev->daemon.pid, RLIMIT_NOFILE, &none, NULL), 0);
	run_tool("! ls %s 2>/dev/null", w.node.staging);
	publish_ok(w.node.target);
	ck_assert_str_eq(health_reason(), "");
	ck_assert_msg(node_stats(&w.node.node, VOLUME_ID, w.node.target, &stats, &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_gt(stats.total_bytes, 0);
	unpublish_ok(w.node.target);
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

/* As kubelet: retries until the thread that waits for the server has its answer. */
static void unstage_in_the_end(const char *volume, const char *path)
{
	struct deadline d = soon();
	struct err err = ERR_INIT;
	int rc;

	do {
		err_clear(&err);
		rc = node_unstage(&w.node.node, volume, path, soon(), &err);
	} while (rc && err.code == ERR_UNAVAILABLE && !deadline_passed(d));
	ck_assert_msg(rc == 0, "%s", err.msg);
}

START_TEST(a_share_that_hangs_is_waited_for_and_its_pods_end)
{
	struct stage_request r;
	struct health health;
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	publish_ok(w.node.target);
	share_signal(&dev->daemon, SIGSTOP);
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	ck_assert_int_eq(node_stage(&w.node.node, &r, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "cannot be checked"), "%s",
	              err.msg);
	err_clear(&err);
	ck_assert_int_eq(publish(w.node.other_target, MODE_MULTI_NODE_MULTI_WRITER, false, &err),
	                 -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	ck_assert_int_eq(
		node_volume_health(&w.node.node, VOLUME_ID, w.node.target, NULL, &health, &err), 0);
	ck_assert_uint_eq(health.n, 1);
	ck_assert_str_eq(health.v[0].reason, "FilesystemNotResponding");
	unpublish_ok(w.node.target);
	unstage_refused(ERR_UNAVAILABLE, "would block on its server");
	ck_assert_ptr_nonnull(mount_seen(w.node.staging));
	/* All calls before this returned while the server hung. */
	share_signal(&dev->daemon, SIGCONT);
	unstage_in_the_end(VOLUME_ID, w.node.staging);
	share_world_clear(&w);
}
END_TEST

START_TEST(two_shares_that_hang_at_once_do_not_wait_for_each_other)
{
	struct share_device *second;
	struct stage_request r;
	struct err err = ERR_INIT;
	char *path AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	second = share_world_add(&w, "tag-b");
	path = xasprintf("%s/second", w.node.kubelet_dir);
	r = share_stage_request(&w, second, MODE_MULTI_NODE_MULTI_WRITER);
	r.volume_id = "pvc-2";
	r.staging_path = path;
	stage();
	stage_ok(&r);
	share_signal(&dev->daemon, SIGSTOP);
	share_signal(&second->daemon, SIGSTOP);
	unstage_refused(ERR_UNAVAILABLE, "would block on its server");
	ck_assert_int_eq(node_unstage(&w.node.node, "pvc-2", path, soon(), &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	share_signal(&second->daemon, SIGCONT);
	unstage_in_the_end("pvc-2", path);
	unstage_refused(ERR_UNAVAILABLE, "would block on its server");
	/* The DPU gives it up: its function goes, and the unstage ends. */
	share_signal(&dev->daemon, SIGCONT);
	share_world_unplug(&w, dev);
	unstage_in_the_end(VOLUME_ID, w.node.staging);
	share_world_clear(&w);
}
END_TEST

START_TEST(a_refused_unstage_changes_nothing_for_the_stage_that_follows)
{
	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	publish_ok(w.node.target);
	unstage_refused(ERR_PRECONDITION, "its share is still mounted at");
	stage();
	ck_assert_uint_eq(mounts_below(w.node.staging), 1);
	publish_ok(w.node.other_target);
	share_world_unplug(&w, dev);
	unstage_refused(ERR_PRECONDITION, "its share is still mounted at");
	share_world_plug(&w, dev);
	stage();
	/* The pods' own mounts are of the share that was removed. */
	unpublish_ok(w.node.target);
	unpublish_ok(w.node.other_target);
	publish_ok(w.node.target);
	run_tool("echo x > %s/x && grep -q x %s/x", w.node.target, dev->folder);
	unpublish_ok(w.node.target);
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

START_TEST(tags_that_two_functions_have_exchanged_are_not_mounted)
{
	struct share_device *second;
	struct stage_request r;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	if (_i)
		share_world_unprove(&w);
	second = share_world_add(&w, "tag-b");
	stage();
	unstage_ok();
	share_world_unplug(&w, dev);
	snprintf(dev->tag, sizeof(dev->tag), "tag-b");
	snprintf(second->tag, sizeof(second->tag), "tag-a");
	share_world_unplug(&w, second);
	share_world_plug(&w, dev);
	share_world_plug(&w, second);
	share_world_bind(&w, second);
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	r.want.tag = "tag-a"; /* the attachment still has the tag of the first function */
	refused(&r, ERR_PRECONDITION, "tag");
	ck_assert(!dev->bound);
	share_world_clear(&w);
}
END_TEST

START_TEST(a_server_that_hangs_during_the_stage_leaves_nothing_mounted)
{
	struct deadline d = soon();
	struct stage_request r;
	struct err err = ERR_INIT;
	int rc;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	share_world_bind(&w, dev);
	share_signal(&dev->daemon, SIGSTOP);
	r = request(MODE_MULTI_NODE_MULTI_WRITER);
	/* A copy in place of the first mount of the tag, which sends the server no request. */
	run_tool("mkdir %s/copy && mount -i -n -c --bind %s/tag-a %s/copy", w.node.nvme.root,
	         w.tags, w.node.nvme.root);
	refused(&r, ERR_UNAVAILABLE, "has not answered");
	share_signal(&dev->daemon, SIGCONT);
	/* As kubelet: retries until the thread that waits for the server has its answer. */
	do {
		err_clear(&err);
		rc = node_stage(&w.node.node, &r, soon(), &err);
	} while (rc && err.code == ERR_UNAVAILABLE && !deadline_passed(d));
	ck_assert_msg(rc == 0, "%s", err.msg);
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

/* ---- other holders ---- */

static pid_t capture_mounts(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

START_TEST(a_share_that_another_mount_namespace_has_stays_staged_unless_it_is_dead)
{
	pid_t holder;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	holder = capture_mounts();
	unstage_refused(ERR_PRECONDITION, "another mount namespace");
	ck_assert_ptr_nonnull(mount_seen(w.node.staging));
	share_world_unplug(&w, dev);
	unstage_ok();
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	share_world_clear(&w);
}
END_TEST

/* A share has no disk to claim, so only the scan of the mount namespaces decides. */
START_TEST(a_share_that_may_be_mounted_elsewhere_stays_staged)
{
	char *proc AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	proc = xasprintf("%s/proc-of-test", w.node.nvme.root);
	run_tool("mkdir -p %s/8/ns %s/8/mountinfo && ln -s mnt:[5] %s/8/ns/mnt && "
	         "ln -s /proc/self /proc/sys %s",
	         proc, proc, proc, proc);
	w.node.node.o.proc_root = proc;
	unstage_refused(ERR_UNAVAILABLE,
	                "could not determine whether its share is mounted in another");
	run_tool("rm -r %s/8", proc);
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

START_TEST(a_file_open_in_the_staged_share_is_named)
{
	char *file AUTO(free) = NULL;
	FILE *f;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	file = xasprintf("%s/open", w.node.staging);
	f = fopen(file, "w");
	ck_assert_ptr_nonnull(f);
	unstage_refused(ERR_UNAVAILABLE, "busy");
	fclose(f);
	unstage_ok();
	share_world_clear(&w);
}
END_TEST

/*
 * If the server marks a directory as a mount point of its own, the kernel mounts it, with the
 * source "none".
 */
START_TEST(what_the_kernel_mounted_within_a_share_goes_with_it)
{
	struct share sub = { 0 }, other = { 0 };
	char *at AUTO(free) = NULL, *beside AUTO(free) = NULL;
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	publish_ok(w.node.target);
	at = xasprintf("%s/sub", w.node.target);
	beside = xasprintf("%s/beside", w.node.target);
	share_start(&sub, "none", w.node.nvme.root, at);
	/* Another share mounted in there by a user must stay. */
	share_start(&other, "tag-z", w.node.nvme.root, beside);
	ck_assert_int_eq(node_unpublish(&w.node.node, VOLUME_ID, w.node.target, &err), -1);
	ck_assert_msg(strstr(err.msg, "beside is mounted below it"), "%s", err.msg);
	share_end(&other);
	unpublish_ok(w.node.target);
	unstage_ok();
	share_end(&sub);
	share_world_clear(&w);
}
END_TEST

/* ---- probes of a tag ---- */

START_TEST(a_look_that_a_killed_driver_has_left_is_tidied_up)
{
	struct str did AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	run_tool("mkdir -p %s/looking/abc %s/looking/def && "
	         "mount -i -n --bind %s/tag-a %s/looking/abc",
	         w.node.plugin_dir, w.node.plugin_dir, w.tags, w.node.plugin_dir);
	if (_i == 1)
		share_signal(&dev->daemon, SIGKILL);
	if (_i == 2)
		share_signal(&dev->daemon, SIGSTOP);
	ck_assert_msg(share_tidy(&w.node.node, &did, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.node.plugin_dir), 0);
	ck_assert_msg(strstr(did.ptr, "looking/abc") && strstr(did.ptr, "looking/def"), "%s",
	              did.ptr);
	run_tool("rmdir %s/looking", w.node.plugin_dir);
	share_world_clear(&w);
}
END_TEST

/* The start tidies up concurrently with calls. */
START_TEST(a_look_of_this_driver_is_left_alone)
{
	struct str did AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	stage();
	w.node.node.o.own_probes = true;
	share_world_restart(&w);
	run_tool("mkdir -p %s/looking/abc%s && mount -i -n --bind %s/tag-a %s/looking/abc%s",
	         w.node.plugin_dir, w.node.node.token, w.tags, w.node.plugin_dir,
	         w.node.node.token);
	ck_assert_msg(share_tidy(&w.node.node, &did, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(did.ptr, "");
	ck_assert_uint_eq(mounts_below(w.node.plugin_dir), 1);
	/* For the next driver process, it belongs to another driver. */
	share_world_restart(&w);
	ck_assert_msg(share_tidy(&w.node.node, &did, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.node.plugin_dir), 0);
	share_world_clear(&w);
}
END_TEST

START_TEST(a_look_finds_the_superblock_or_no_tag_and_leaves_nothing)
{
	struct strs flags AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	dev_t devno = 0;

	SKIP_UNLESS_ROOT("mounts");
	begin();
	ck_assert_int_eq(share_probe_tag(&w.node.node, VOLUME_ID, "tag-a", &flags, &devno, &err),
	                 SHARE_NO_TAG);
	stage();
	ck_assert_msg(share_probe_tag(&w.node.node, VOLUME_ID, "tag-a", &flags, &devno, &err) == 0,
	              "%s", err.msg);
	ck_assert(devno == mount_seen(w.node.staging)->devno);
	ck_assert_uint_eq(mounts_below(w.node.plugin_dir), 0);
	run_tool("rmdir %s/looking", w.node.plugin_dir);
	share_world_clear(&w);
}
END_TEST

SUITE_AROUND("share", 60, mount_helper_install, mount_helper_remove,
             a_share_is_staged_once_and_pods_write_into_its_folder,
             read_only_comes_from_the_mode_the_flags_or_the_pod,
             mount_flags_reach_the_mount_and_others_are_refused, two_volumes_live_side_by_side,
             a_read_write_once_pod_volume_gets_one_target,
             what_the_go_plugin_mounted_at_the_target_is_unpublished_and_unstaged,
             a_share_is_measured_found_healthy_and_has_nothing_to_grow,
             LOOP(a_tag_that_another_device_has_is_not_mounted, 2),
             a_tag_that_nobody_can_show_is_proven_by_its_absence_before,
             a_share_that_is_staged_for_another_volume_is_not_staged_again,
             a_tag_with_another_share_behind_it_is_not_taken_for_the_staged_one,
             what_is_something_else_at_the_staging_path_is_left_alone,
             a_staged_share_is_published_only_as_what_it_is,
             LOOP(a_dead_share_is_said_to_be_dead_and_everything_ends, 2),
             LOOP(a_share_whose_device_came_anew_is_staged_anew, 2),
             an_errno_of_the_server_is_an_answer, LOOP(the_last_unpublish_asks_the_server_once, 3),
             a_share_whose_root_cannot_be_listed_is_served_as_any_other,
             a_share_that_hangs_is_waited_for_and_its_pods_end,
             two_shares_that_hang_at_once_do_not_wait_for_each_other,
             a_refused_unstage_changes_nothing_for_the_stage_that_follows,
             LOOP(tags_that_two_functions_have_exchanged_are_not_mounted, 2),
             a_server_that_hangs_during_the_stage_leaves_nothing_mounted,
             a_share_that_may_be_mounted_elsewhere_stays_staged,
             a_share_that_another_mount_namespace_has_stays_staged_unless_it_is_dead,
             a_file_open_in_the_staged_share_is_named,
             what_the_kernel_mounted_within_a_share_goes_with_it,
             LOOP(a_look_that_a_killed_driver_has_left_is_tidied_up, 3),
             a_look_of_this_driver_is_left_alone,
             a_look_finds_the_superblock_or_no_tag_and_leaves_nothing);
