/* SPDX-License-Identifier: Apache-2.0 */
/* Publishing and unpublishing: one bind, the right disk, nothing deleted that is not ours. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/target/guard.h"
#include "node/mount/mount.h"
#include "test/lib/fs_state.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define OTHER_UUID "22222222-aaaa-4bbb-8ccc-000000000002"

static struct node_world w;
static struct nvme_disk *disk;
static struct stage_request staged;

static bool node_vanishes; /* between the list of mounts and the check of the bound node */

/* Replaces the C library's function for the driver. */
int fstat(int fd, struct stat *ret)
{
	int rc = fstatat(fd, "", ret, AT_EMPTY_PATH);

	if (rc || !node_vanishes || !S_ISBLK(ret->st_mode))
		return rc;
	node_vanishes = false;
	ck_assert_int_eq(unlink(disk->node), 0);
	return fstatat(fd, "", ret, AT_EMPTY_PATH);
}

static void begin(const char *fs_type, enum access_mode mode)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
	staged = stage_request(&w, disk, fs_type, mode);
	if (access_mode_is_reader_only(mode) && fs_type)
		run_tool("mkfs.%s -q %s", fs_type, disk->loop);
	node_world_stage(&w, &staged);
}

static void publish_ok(const struct publish_request *r)
{
	node_world_publish(&w, r);
}

/* The call is refused, and changes nothing. */
static void publish_refused(const struct publish_request *r, enum err_code code, const char *text)
{
	char *before AUTO(free) = kubelet_tree(&w), *after AUTO(free) = NULL;
	size_t mounts = mounts_below(w.nvme.root);
	struct err err = ERR_INIT;

	ck_assert_int_eq(node_publish(&w.node, r, soon(), &err), -1);
	ck_assert_msg(err.code == code, "%s: %s", err_code_name(err.code), err.msg);
	ck_assert_msg(strstr(err.msg, text) != NULL, "%s", err.msg);
	after = kubelet_tree(&w);
	ck_assert_str_eq(after, before);
	ck_assert_uint_eq(mounts_below(w.nvme.root), mounts);
}

static void unpublish_ok(const char *target)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unpublish(&w.node, VOLUME_ID, target, &err) == 0, "%s", err.msg);
	ck_assert(!path_exists(target));
}

static const char *const types[] = { "ext4", "xfs", "btrfs", NULL };

START_TEST(the_target_of_another_volume_stays_published)
{
	const char *type = types[_i];
	char *target AUTO(free) = NULL, *data AUTO(free) = NULL;
	struct publish_request r;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin(type, MODE_SINGLE_NODE_WRITER);
	data = xasprintf("%s/%s", w.kubelet_dir,
	                 type ? "pods/1/volumes/kubernetes.io~csi/pv"
	                      : "plugins/kubernetes.io/csi/volumeDevices/pv/data");
	target = type ? xasprintf("%s/mount", data)
	              : xasprintf("%s/plugins/kubernetes.io/csi/volumeDevices/publish/pv/1",
	                          w.kubelet_dir);
	run_tool("mkdir -p %s && printf '{\"volumeHandle\": \"%%s\"}' %s >%s/vol_data.json", data,
	         VOLUME_ID, data);
	r = publish_request(&w, target, type, MODE_SINGLE_NODE_WRITER);
	publish_ok(&r);
	ck_assert_int_eq(node_unpublish(&w.node, "pvc-2", target, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "expected pvc-2"), "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(target), 1);
	unpublish_ok(target);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_volume_is_published_once_and_taken_back)
{
	const char *type = types[_i];
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin(type, MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, type, MODE_SINGLE_NODE_WRITER);
	r.want = &staged.want;
	publish_ok(&r);
	publish_ok(&r);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 2); /* staging and one target */
	if (type)
		run_tool("echo data > %s/f && grep -q data %s/f", w.target, w.staging);
	else
		run_tool("test -b %s && echo x | dd of=%s 2>/dev/null", w.target, w.target);
	unpublish_ok(w.target);
	unpublish_ok(w.target);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_read_only_publish_cannot_be_written)
{
	struct publish_request r;
	struct publish_request rw;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	rw = publish_request(&w, w.other_target, "ext4", MODE_SINGLE_NODE_WRITER);
	r.read_only = true;
	publish_ok(&r);
	publish_ok(&r);
	publish_ok(&rw); /* one pod reads, one writes */
	run_tool("! touch %s/f 2>/dev/null && touch %s/f && test -e %s/f", w.target, w.other_target,
	         w.target);
	/* Differs from the existing publish. */
	r.read_only = false;
	publish_refused(&r, ERR_EXISTS, "already published read-only");
	rw.read_only = true;
	publish_refused(&rw, ERR_EXISTS, "already published read-write");
	unpublish_ok(w.target);
	unpublish_ok(w.other_target);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_reader_only_volume_is_published_read_only)
{
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_MULTI_NODE_READER_ONLY);
	r = publish_request(&w, w.target, "ext4", MODE_MULTI_NODE_READER_ONLY);
	publish_ok(&r);
	publish_ok(&r);
	run_tool("! touch %s/f 2>/dev/null", w.target);
	unpublish_ok(w.target);
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_can_be_published_read_only)
{
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin(NULL, MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, NULL, MODE_SINGLE_NODE_WRITER);
	r.read_only = true;
	publish_ok(&r);
	publish_ok(&r);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 2);
	unpublish_ok(w.target);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_volume_for_one_pod_has_one_target)
{
	const char *type = types[_i];
	struct publish_request first;
	struct publish_request second;

	SKIP_UNLESS_LOOP();
	begin(type, MODE_SINGLE_NODE_SINGLE_WRITER);
	first = publish_request(&w, w.target, type, MODE_SINGLE_NODE_SINGLE_WRITER);
	second = publish_request(&w, w.other_target, type, MODE_SINGLE_NODE_SINGLE_WRITER);
	publish_ok(&first);
	/* kubelet binds a published device node to paths of its own, and may repeat the call. */
	run_tool("%s %s/kubelet/own && mount --bind %s %s/kubelet/own", type ? "mkdir" : "touch",
	         w.nvme.root, w.target, w.nvme.root);
	publish_ok(&first);
	run_tool("umount %s/kubelet/own", w.nvme.root);
	publish_refused(&second, ERR_PRECONDITION,
	                "its claim is ReadWriteOncePod (SINGLE_NODE_SINGLE_WRITER) and another pod "
	                "has it, at ");
	/* Shared by any number of pods of a node. */
	second.cap.mode = MODE_SINGLE_NODE_MULTI_WRITER;
	publish_ok(&second);
	unpublish_ok(w.target);
	unpublish_ok(w.other_target);
	first.target_path = w.other_target;
	publish_ok(&first);
	unpublish_ok(w.other_target);
	node_world_clear(&w);
}
END_TEST

START_TEST(what_is_not_staged_is_not_published)
{
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, NULL, MODE_SINGLE_NODE_WRITER);
	publish_refused(&r, ERR_PRECONDITION,
	                "staged as a filesystem, and cannot be published as raw block");
	run_tool("umount %s", w.staging);
	publish_refused(&r, ERR_PRECONDITION, "it is not staged");
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	publish_refused(&r, ERR_PRECONDITION, "it is not staged");
	r.staging_path = "/nonexistent/staging";
	publish_refused(&r, ERR_PRECONDITION, "it is not staged");
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_is_not_published_as_a_filesystem)
{
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin(NULL, MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	publish_refused(&r, ERR_PRECONDITION,
	                "staged as raw block, and cannot be published as a filesystem");
	node_world_clear(&w);
}
END_TEST

/* The staging path shows the disk of another volume. */
START_TEST(another_disk_than_the_attachments_is_not_published)
{
	const char *type = types[_i];
	struct nvme_disk *other;
	struct publish_request r;
	struct device_want want;

	SKIP_UNLESS_LOOP();
	begin(type, MODE_SINGLE_NODE_WRITER);
	other = nvme_world_add(&w.nvme, 1, OTHER_UUID, 64 * MIB);
	r = publish_request(&w, w.target, type, MODE_SINGLE_NODE_WRITER);
	want = staged.want;

	r.want = &want;
	want.pci = other->pci;
	want.uuid = other->uuid;
	publish_refused(&r, ERR_PRECONDITION, "but the volume is on");
	want.uuid = UUID;
	publish_refused(&r, ERR_PRECONDITION, "(expected " UUID);
	want = staged.want;
	publish_ok(&r);
	unpublish_ok(w.target);
	nvme_world_hide(&w.nvme, disk);
	publish_refused(&r, ERR_UNAVAILABLE, "no longer exists: it was detached while in use");
	r.want = NULL; /* even if the request does not identify the disk */
	publish_refused(&r, ERR_UNAVAILABLE, "its device");
	node_world_clear(&w);
}
END_TEST

/* The number of opens of a file since the last call; watches closes, because equal events merge. */
static unsigned opens_of(int watch)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	unsigned n = 0;
	ssize_t len;

	while ((len = read(watch, events, sizeof(events))) > 0)
		for (const char *p = events; p < events + len;) {
			const struct inotify_event *e = (const struct inotify_event *)p;

			n += (e->mask & IN_OPEN) != 0;
			p += sizeof(*e) + e->len;
		}
	return n;
}

/* On real hardware a read takes milliseconds, because it goes through configuration space. */
START_TEST(the_vpd_is_read_once_in_a_volumes_life)
{
	char *vpd AUTO(free) = NULL;
	int watch AUTO(fd) = -1;
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
	vpd = xasprintf("%s/bus/pci/devices/%s/physfn/vpd", w.nvme.sysfs, disk->pci);
	run_tool("printf '\\220\\013\\000VU\\010MT2328XZ\\170' > %s", vpd);
	watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	ck_assert_int_ge(inotify_add_watch(watch, vpd, IN_OPEN | IN_CLOSE), 0);
	staged = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	staged.want.vuid = "MT2328XZ";
	node_world_stage(&w, &staged);
	ck_assert_uint_eq(opens_of(watch), 1);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	r.want = &staged.want;
	publish_ok(&r);
	ck_assert_uint_eq(opens_of(watch), 0);
	unpublish_ok(w.target);
	/* If the attachment has no UUID, the VPD is the proof. */
	staged.want.uuid = "";
	publish_ok(&r);
	ck_assert_uint_eq(opens_of(watch), 1);
	staged.want.vuid = "MT2328XX";
	publish_refused(&r, ERR_UNAVAILABLE, "has VUID MT2328XZ");
	staged.want.vuid = "MT2328XZ";
	unpublish_ok(w.target);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_publish_waits_for_a_controller_that_is_not_live)
{
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	r.want = &staged.want;
	run_tool("for c in %s/bus/pci/devices/%s/nvme/*; do echo resetting > $c/state; done",
	         w.nvme.sysfs, disk->pci);
	publish_refused(&r, ERR_UNAVAILABLE, "is in state \"resetting\"");
	run_tool("for c in %s/bus/pci/devices/%s/nvme/*; do echo live > $c/state; done",
	         w.nvme.sysfs, disk->pci);
	publish_ok(&r);
	unpublish_ok(w.target);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_taken_target_is_refused)
{
	struct publish_request r;
	struct nvme_disk *other;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	other = nvme_world_add(&w.nvme, 1, OTHER_UUID, 64 * MIB);
	run_tool("mkfs.ext4 -q %s && mkdir -p %s && mount %s %s", other->loop, w.target,
	         other->node, w.target);
	publish_refused(&r, ERR_PRECONDITION, "already has a different mount");
	/* The disk of that mount vanishes: the mount is unmounted. */
	nvme_world_hide(&w.nvme, other);
	publish_ok(&r);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 2);
	unpublish_ok(w.target);

	run_tool("mkdir %s && mount -t tmpfs x %s", w.target, w.target);
	publish_refused(&r, ERR_PRECONDITION, "already has a different mount (tmpfs");
	run_tool("umount %s && rmdir %s && touch %s", w.target, w.target, w.target);
	publish_refused(&r, ERR_PRECONDITION, "is not a directory");
	run_tool("rm %s && ln -s / %s", w.target, w.target);
	publish_refused(&r, ERR_PRECONDITION, "is not a directory");
	node_world_clear(&w);
}
END_TEST

START_TEST(a_device_node_that_is_removed_meanwhile_is_not_published)
{
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin(NULL, MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, NULL, MODE_SINGLE_NODE_WRITER);
	node_vanishes = true;
	publish_refused(&r, ERR_UNAVAILABLE, "was bound to");
	ck_assert(!node_vanishes && !path_exists(disk->node));
	node_world_clear(&w);
}
END_TEST

/* The node bound at the staging path leads to no disk, or to the disk that has its number now. */
START_TEST(a_staged_node_whose_disk_has_gone_or_come_anew_is_unavailable)
{
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin(NULL, MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, NULL, MODE_SINGLE_NODE_WRITER);
	r.want = _i & 1 ? &staged.want : NULL;
	nvme_world_hide(&w.nvme, disk);
	publish_refused(&r, ERR_UNAVAILABLE, "no longer exists: it was detached while in use");
	nvme_world_show(&w.nvme, disk);
	publish_refused(&r, ERR_UNAVAILABLE, "no longer exists: it was detached while in use");
	node_world_stage(&w, &staged);
	publish_ok(&r);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_late_caller_gets_nothing)
{
	struct err err = ERR_INIT;
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	ck_assert_int_eq(node_publish(&w.node, &r, deadline_in_ms(0), &err), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	ck_assert(!path_exists(w.target));
	node_world_clear(&w);
}
END_TEST

/* ---- unpublish ---- */

static void unpublish_refused(const char *text)
{
	size_t mounts = mounts_below(w.nvme.root);
	struct err err = ERR_INIT;

	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION, "%s: %s", err_code_name(err.code), err.msg);
	ck_assert_msg(strstr(err.msg, text) != NULL, "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), mounts);
}

START_TEST(what_is_not_mounted_is_removed_only_when_empty)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_ROOT("mounts");
	node_world_init(&w);
	unpublish_ok(w.target); /* nothing is mounted, and even its parents are missing */
	ck_assert_int_eq(node_unpublish(&w.node, "no-such", "relative/path", &err), 0);
	run_tool("mkdir -p %s", w.target);
	unpublish_ok(w.target);
	run_tool("touch %s", w.target);
	unpublish_ok(w.target);

	run_tool("mkdir -p %s/database && echo rows > %s/database/table", w.target, w.target);
	unpublish_refused("not mounted and not empty (1 entries, among them database)");
	run_tool("grep -q rows %s/database/table && rm -r %s", w.target, w.target);
	run_tool("echo data > %s", w.target);
	unpublish_refused("is left alone");
	run_tool("grep -q data %s && rm %s && ln -s / %s", w.target, w.target, w.target);
	unpublish_refused("is left alone");
	run_tool("test -L %s && rm %s", w.target, w.target);
	node_world_clear(&w);
}
END_TEST

/* An emptyDir in memory: a wrong path in a request must not cost a pod its files. */
START_TEST(a_filesystem_in_memory_is_not_unmounted)
{
	struct publish_request r;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	run_tool("mkdir -p %s && mount -t tmpfs cache %s && touch %s/file", w.target, w.target,
	         w.target);
	unpublish_refused("shows tmpfs (cache), which this driver does not mount");
	ck_assert_int_eq(node_unstage(&w.node, VOLUME_ID, w.target, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION, "%s", err.msg);
	run_tool("test -e %s/file && umount %s", w.target, w.target);
	/* Over a published volume, such a mount still has another owner. */
	publish_ok(&r);
	run_tool("mount -t tmpfs cache %s", w.target);
	unpublish_refused("shows tmpfs (cache)");
	run_tool("umount %s", w.target);
	unpublish_ok(w.target);
	node_world_clear(&w);
}
END_TEST

START_TEST(stacked_binds_all_go)
{
	SKIP_UNLESS_LOOP();
	begin(NULL, MODE_SINGLE_NODE_WRITER);
	run_tool(
		"mkdir -p $(dirname %s) && touch %s && for i in 1 2 3; do mount --bind %s %s; done",
		w.target, w.target, w.block_file, w.target);
	unpublish_ok(w.target);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_busy_target_is_tried_again_and_a_dead_one_goes)
{
	const char *type = types[_i];
	struct err err = ERR_INIT;
	struct publish_request r;
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	begin(type, MODE_SINGLE_NODE_WRITER);
	r = publish_request(&w, w.target, type, MODE_SINGLE_NODE_WRITER);
	publish_ok(&r);
	fd = open(w.target, O_RDONLY);
	/* Unpublish has two seconds to find the holder, and a busy machine has many processes. */
	node_world_restart(&w, true);
	run_tool("cd %s/proc && ln -s /proc/%d %d && ln -sfn %d self", w.nvme.root, getpid(),
	         getpid(), getpid());
	if (type) { /* an open device node does not hold its bind */
		ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), -1);
		ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
		ck_assert_msg(strstr(err.msg, "only this driver has it open"), "%s", err.msg);
		err_clear(&err);
	}
	nvme_world_hide(&w.nvme, disk);
	unpublish_ok(w.target);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_target_under_a_later_mount_is_refused_by_the_name_of_that_mount)
{
	bool made_again = _i; /* kubelet creates a pod's directories if they are missing */
	char *cover AUTO(free) = NULL, *text AUTO(free) = NULL;
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	cover = xasprintf("%s/kubelet/pods", w.nvme.root);
	text = xasprintf("tmpfs (cover) was mounted over it at %s: unmount", cover);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	publish_ok(&r);
	run_tool("mount -t tmpfs cover %s", cover);
	if (made_again)
		run_tool("mkdir -p %s", w.target);
	publish_refused(&r, ERR_PRECONDITION, text);
	unpublish_refused(text);
	run_tool("umount %s", cover);
	publish_ok(&r);
	unpublish_ok(w.target);
	node_world_clear(&w);
}
END_TEST

static const struct {
	const char *fs_type;
	enum fs_state state;
	enum err_code write, read; /* of a publish for writing, and of one for reading */
	const char *text;
} state_rows[] = {
	{ "ext4", FS_STATE_FROZEN, ERR_UNAVAILABLE, ERR_OK, "fsfreeze -u " },
	{ "xfs", FS_STATE_FROZEN, ERR_UNAVAILABLE, ERR_OK, "fsfreeze -u " },
	{ "btrfs", FS_STATE_FROZEN, ERR_UNAVAILABLE, ERR_OK, "fsfreeze -u " },
	{ "ext4", FS_STATE_TURNED_READ_ONLY, ERR_PRECONDITION, ERR_OK, "read-only by the kernel" },
	{ "xfs", FS_STATE_TURNED_READ_ONLY, ERR_PRECONDITION, ERR_OK, "read-only by the kernel" },
	{ "btrfs", FS_STATE_TURNED_READ_ONLY, ERR_PRECONDITION, ERR_OK, "read-only by the kernel" },
	{ "ext4", FS_STATE_ERROR, ERR_PRECONDITION, ERR_OK, "read-only by the kernel" },
	{ "ext4", FS_STATE_SHUT_DOWN, ERR_PRECONDITION, ERR_PRECONDITION, "shut itself down" },
	{ "xfs", FS_STATE_SHUT_DOWN, ERR_UNAVAILABLE, ERR_UNAVAILABLE, "Input/output error" },
};

static void publish_as(const struct publish_request *r, enum err_code want, const char *text)
{
	if (want != ERR_OK) {
		publish_refused(r, want, text);
		return;
	}
	publish_ok(r);
	unpublish_ok(r->target_path);
}

START_TEST(a_filesystem_that_takes_no_writes_is_published_for_reading_only)
{
	struct publish_request rw, ro;

	SKIP_UNLESS_LOOP();
	begin(state_rows[_i].fs_type, MODE_SINGLE_NODE_WRITER);
	ro = rw = publish_request(&w, w.target, state_rows[_i].fs_type, MODE_SINGLE_NODE_WRITER);
	ro.read_only = true;
	publish_ok(&rw);
	fs_state_set(state_rows[_i].state, state_rows[_i].fs_type, disk->loop, w.staging);
	if (state_rows[_i].state == FS_STATE_FROZEN)
		w.node.o.tuning.guard_ms = 1000;
	publish_refused(&rw, state_rows[_i].write, state_rows[_i].text); /* repeated by kubelet */
	unpublish_ok(w.target);
	publish_as(&rw, state_rows[_i].write, state_rows[_i].text);
	/* Only the frozen filesystem must not be waited for. */
	w.node.o.tuning.guard_ms = w.tuning.guard_ms;
	publish_as(&ro, state_rows[_i].read, state_rows[_i].text);
	if (state_rows[_i].state == FS_STATE_FROZEN) {
		fs_state_thaw(w.staging, w.node.guard, disk->devno);
		publish_as(&rw, ERR_OK, "");
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(a_volume_that_is_mounted_read_only_is_published_so_when_the_flags_say_it)
{
	static const struct {
		const char *flag;
		bool read_only, published;
	} rows[] = {
		{ NULL, false, false },
		{ "noatime", false, false },
		{ "noatime,errors", false, false },
		{ "ro", false, true },
		{ "noatime,ro", false, true },
		{ NULL, true, true },
	};
	struct publish_request r;

	SKIP_UNLESS_LOOP();
	begin("ext4", MODE_SINGLE_NODE_WRITER);
	run_tool("mount -i -o remount,ro -t ext4 %s %s", disk->loop, w.staging);
	r = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		r.cap.mount_flags = &rows[i].flag;
		r.cap.n_mount_flags = rows[i].flag ? 1 : 0;
		r.read_only = rows[i].read_only;
		publish_as(&r, rows[i].published ? ERR_OK : ERR_PRECONDITION, "read-only at ");
	}
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("publish", 60, LOOP(the_target_of_another_volume_stays_published, 4),
              LOOP(a_filesystem_that_takes_no_writes_is_published_for_reading_only,
                   ARRAY_LEN(state_rows)),
              a_volume_that_is_mounted_read_only_is_published_so_when_the_flags_say_it,
              LOOP(a_target_under_a_later_mount_is_refused_by_the_name_of_that_mount, 2),
              LOOP(a_volume_is_published_once_and_taken_back, 4),
              LOOP(a_volume_for_one_pod_has_one_target, 4),
              LOOP(another_disk_than_the_attachments_is_not_published, 4),
              LOOP(a_busy_target_is_tried_again_and_a_dead_one_goes, 4),
              the_vpd_is_read_once_in_a_volumes_life,
              a_publish_waits_for_a_controller_that_is_not_live,
              a_read_only_publish_cannot_be_written, a_reader_only_volume_is_published_read_only,
              raw_block_can_be_published_read_only, what_is_not_staged_is_not_published,
              raw_block_is_not_published_as_a_filesystem, a_taken_target_is_refused,
              a_device_node_that_is_removed_meanwhile_is_not_published,
              LOOP(a_staged_node_whose_disk_has_gone_or_come_anew_is_unavailable, 2),
              a_late_caller_gets_nothing, what_is_not_mounted_is_removed_only_when_empty,
              stacked_binds_all_go, a_filesystem_in_memory_is_not_unmounted);
