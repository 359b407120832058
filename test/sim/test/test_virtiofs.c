/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders as virtio-fs devices: the function and its tag in the tree, the mount of the tag on each
 * node, the host's writes, the daemon's states, faults.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/sim/test/harness.h"
#include "test/sim/test/host_tree.h"

#define SLOT0 "0000:30:00.0"
#define SLOT1 "0000:31:00.0"
#define FN0 "sys/bus/pci/devices/" SLOT0
#define FN1 "sys/bus/pci/devices/" SLOT1
#define DRIVER "sys/bus/pci/drivers/virtio-pci"
#define FUSE_MAGIC 0x65735546

#define SHARE_HOST(w, ...) HOST(w, "--hotplug-slots=3", __VA_ARGS__)

static void make_volume(struct sim_world *w, const char *name)
{
	char *body AUTO(free) = xasprintf(
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolume\","
		"\"metadata\":{\"name\":\"%s\"},\"spec\":{\"dpuStoragePolicyName\":\"example-policy\","
		"\"accessModes\":[\"ReadWriteMany\"],\"volumeMode\":\"Filesystem\","
		"\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}}",
		name);

	world_ok(w, "POST", VOLUMES, body, 201);
}

/* Attaches it to the node by an attachment "<node>-<volume>"; the tag in the status, malloc'ed. */
static char *attach(struct sim_world *w, const char *node, const char *volume)
{
	char *name AUTO(free) = xasprintf("%s-%s", node, volume);
	char *body AUTO(free) = attachment_json_text(name, node, volume, "pf", true);
	struct json *o AUTO(json_free) = NULL;

	world_ok(w, "POST", ATTACHMENTS, body, 201);
	o = world_attached(w, name);
	ck_assert_ptr_nonnull(json_str(o, "status.dpu.virtioFSAttrs.filesystemTag"));
	return xstrdup(json_str(o, "status.dpu.virtioFSAttrs.filesystemTag"));
}

static void detach(struct sim_world *w, const char *name)
{
	char *object AUTO(free) = xasprintf("dpuvolumeattachments/%s", name);
	char *path AUTO(free) = xasprintf(ATTACHMENTS "/%s", name);

	world_ok(w, "DELETE", path, NULL, 200);
	world_wait(w, object, NULL, NULL);
}

/* The mount point of the tag on the node; malloc'ed. */
static char *mounted_at(const char *node, const char *tag)
{
	return xasprintf("%s/%s/tags/%s", state, node, tag);
}

static bool is_mounted(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == FUSE_MAGIC;
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	struct err err = ERR_INIT;

	ck_assert_msg(file_replace(path, text, strlen(text), 0644, &err) == 0, "%s", err.msg);
}

static void read_file(const char *dir, const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	char *got AUTO(free) = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(file_read_line(path, 4096, &got, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(got, text);
}

START_TEST(a_share_is_a_hot_plugged_function_with_a_tag)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *tag AUTO(free) = NULL;
	char *folder AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;
	static const struct {
		const char *file, *text;
	} rows[] = {
		{ FN0 "/class", "0x018000" },
		{ FN0 "/vendor", "0x1af4" },
		{ FN0 "/device", "0x105a" },
		{ FN0 "/driver_override", "(null)" },
		{ FN0 "/driver/" SLOT0 "/class", "0x018000" },
		{ FN0 "/virtio0/device", "0x001a" },
		{ FN0 "/virtio0/driver/virtio0/vendor", "0x1af4" },
		{ "sys/bus/virtio/drivers/virtiofs/virtio0/device", "0x001a" },
		{ "sys/bus/virtio/devices/virtio0/status", "0x0000000f" },
		{ "sys/fs/virtiofs/0/device/device", "0x001a" },
	};

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--vfs=1");
	make_volume(&w, "v");
	tag = attach(&w, "one", "v");
	mount = mounted_at("one", tag);
	ck_assert_ptr_nonnull(strstr(tag, "tag"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text AUTO(free) = content(rows[i].file);

		ROW_STR_EQ(rows[i].file, text, rows[i].text);
	}
	{
		char *shown AUTO(free) = content("sys/fs/virtiofs/0/tag");

		ck_assert_str_eq(shown, tag);
	}
	ck_assert(is_mounted(mount));
	write_file(mount, "x", "of the first life");
	detach(&w, "one-v");
	ck_assert(!path_exists(mount));
	ck_assert(!there(FN0));
	ck_assert(!there("sys/fs/virtiofs/0"));
	ck_assert(!there("sys/bus/virtio/devices/virtio0"));
	free(tag);
	tag = attach(&w, "one", "v");
	read_file(mount, "x", "of the first life");
	detach(&w, "one-v");
	folder = xasprintf("%s/shares/" NS ".v", state);
	ck_assert(path_exists(folder));
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
	ck_assert(!path_exists(folder));
}
END_TEST

START_TEST(two_nodes_read_and_write_one_volume)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *tag_one AUTO(free) = NULL;
	char *tag_two AUTO(free) = NULL;
	char *one AUTO(free) = NULL;
	char *two AUTO(free) = NULL;
	struct stat st_one, st_two;

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--node=two");
	make_volume(&w, "v");
	tag_one = attach(&w, "one", "v");
	tag_two = attach(&w, "two", "v");
	one = mounted_at("one", tag_one);
	two = mounted_at("two", tag_two);
	for (int i = 0; i < 5; i++) {
		write_file(i % 2 ? one : two, "x", i % 2 ? "from one" : "from two");
		read_file(i % 2 ? two : one, "x", i % 2 ? "from one" : "from two");
	}
	ck_assert_int_eq(stat(one, &st_one) || stat(two, &st_two), 0);
	ck_assert_uint_ne(st_one.st_dev, st_two.st_dev);
	world_ok(&w, "POST", "/sim/unplug", "{\"volume\":\"v\",\"node\":\"two\"}", 200);
	ck_assert(!path_exists(two));
	read_file(one, "x", "from two");
	world_ok(&w, "POST", "/sim/unplug", "{\"volume\":\"v\",\"node\":\"three\"}", 404);
	detach(&w, "one-v");
	ck_assert(!path_exists(one));
}
END_TEST

START_TEST(a_blacklisting_host_binds_when_asked)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *tag AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--blacklist-virtio");
	make_volume(&w, "v");
	tag = attach(&w, "one", "v");
	mount = mounted_at("one", tag);
	ck_assert(there(FN0));
	ck_assert(!there(FN0 "/driver") && !path_exists(mount));
	/* The wrong driver, and an override to another one. */
	say("sys/bus/pci/drivers/nvme/bind", SLOT0);
	say(FN0 "/driver_override", "vfio-pci");
	say(DRIVER "/bind", SLOT0);
	say(FN0 "/driver_override", "virtio-pci");
	say(DRIVER "/bind", SLOT0);
	until_there("sys/fs/virtiofs/0");
	until_there(DRIVER "/" SLOT0);
	ck_assert(!there("sys/bus/pci/drivers/nvme/" SLOT0));
	write_file(mount, "x", "bound");
	say(DRIVER "/unbind", SLOT0);
	until_gone(FN0 "/driver");
	ck_assert(!there(FN0 "/virtio0") && !there("sys/fs/virtiofs/0") && !path_exists(mount));
	say("sys/bus/pci/drivers_probe", SLOT0);
	until_there("sys/fs/virtiofs/0");
	read_file(mount, "x", "bound");
}
END_TEST

START_TEST(an_old_kernel_shows_no_tags)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *tag AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--no-virtiofs-tags");
	make_volume(&w, "v");
	tag = attach(&w, "one", "v");
	mount = mounted_at("one", tag);
	ck_assert(there(FN0 "/virtio0/driver"));
	ck_assert(!there("sys/fs/virtiofs"));
	ck_assert(is_mounted(mount));
}
END_TEST

START_TEST(of_two_devices_with_one_tag_the_second_gets_no_driver)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *a AUTO(free) = NULL;
	char *b AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--vfs=1");
	world_fault(&w, "{\"dpf\":\"tag\",\"value\":\"same\"}");
	make_volume(&w, "a");
	make_volume(&w, "b");
	a = attach(&w, "one", "a");
	mount = mounted_at("one", "same");
	write_file(mount, "x", "of a");
	b = attach(&w, "one", "b");
	ck_assert_str_eq(a, "same");
	ck_assert_str_eq(b, "same");
	ck_assert(there(FN1 "/driver") && there(FN1 "/virtio1"));
	ck_assert(!there(FN1 "/virtio1/driver") && !there("sys/fs/virtiofs/1"));
	read_file(mount, "x", "of a");
	/* The second gets the tag when the driver is bound to it after the tag has become free. */
	say("sys/bus/virtio/drivers/virtiofs/bind", "virtio1");
	until_obeyed(FN1);
	ck_assert(!there(FN1 "/virtio1/driver"));
	detach(&w, "one-a");
	ck_assert(!path_exists(mount));
	ck_assert(!there(FN1 "/virtio1/driver"));
	say("sys/bus/virtio/drivers/virtiofs/bind", "virtio1");
	until_there("sys/fs/virtiofs/0");
	ck_assert(is_mounted(mount) && there(FN1 "/virtio1/driver"));
	say(DRIVER "/unbind", SLOT1);
	until_gone(FN1 "/driver");
	ck_assert(!path_exists(mount));
	say(DRIVER "/bind", SLOT1);
	until_there("sys/fs/virtiofs/0");
	ck_assert(is_mounted(mount));
}
END_TEST

static void do_share(struct sim_world *w, const char *what, unsigned code)
{
	char *body AUTO(free) =
		xasprintf("{\"volume\":\"v\",\"node\":\"one\",\"do\":\"%s\"}", what);

	world_ok(w, "POST", "/sim/share", body, code);
}

START_TEST(its_daemon_dies_hangs_and_comes_back)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *tag AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;
	struct stat st;

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--vfs=1");
	make_volume(&w, "v");
	do_share(&w, "kill", 404);
	tag = attach(&w, "one", "v");
	mount = mounted_at("one", tag);
	write_file(mount, "x", "before");
	do_share(&w, "stop", 200);
	do_share(&w, "continue", 200);
	read_file(mount, "x", "before");
	do_share(&w, "kill", 200);
	ck_assert_int_eq(stat(mount, &st), -1);
	ck_assert_int_eq(errno, ENOTCONN);
	do_share(&w, "stop", 409);
	do_share(&w, "restart", 200);
	read_file(mount, "x", "before");
	do_share(&w, "dance", 400);
	/* The function can be detached in every state of the daemon. */
	do_share(&w, "stop", 200);
	detach(&w, "one-v");
	ck_assert(!path_exists(mount));
	free(tag);
	tag = attach(&w, "one", "v");
	do_share(&w, "kill", 200);
	detach(&w, "one-v");
	ck_assert(!path_exists(mount));
}
END_TEST

START_TEST(it_is_unplugged_and_comes_back_in_another_slot)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *tag AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;
	DIR *open;

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--vfs=1");
	make_volume(&w, "v");
	tag = attach(&w, "one", "v");
	mount = mounted_at("one", tag);
	write_file(mount, "x", "before");
	open = opendir(mount);
	ck_assert_ptr_nonnull(open);
	world_ok(&w, "POST", "/sim/unplug", "{\"volume\":\"v\"}", 200);
	ck_assert(!there(FN0) && !path_exists(mount) && !there("sys/fs/virtiofs/0"));
	ck_assert_int_eq(faccessat(dirfd(open), "x", F_OK, 0), -1);
	ck_assert_int_eq(errno, ENOTCONN);
	closedir(open);
	world_ok(&w, "POST", "/sim/plug", "{\"volume\":\"v\",\"slot\":1}", 200);
	ck_assert(!there(FN0) && there(FN1 "/virtio0/driver"));
	read_file(mount, "x", "before");
	detach(&w, "one-v");
	ck_assert(!there(FN1) && !path_exists(mount));
}
END_TEST

START_TEST(it_misbehaves_as_told)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *tag AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;
	struct json *o AUTO(json_free) = NULL;

	SKIP_UNLESS_FUSE();
	SHARE_HOST(w, "--vfs=1");
	world_fault(&w, "[{\"dpf\":\"wrong-tag\"},{\"dpf\":\"bind-ignored\"},"
	                "{\"dpf\":\"pci-other-first\",\"value\":\"0000:26:00.1\",\"ms\":100}]");
	make_volume(&w, "v");
	tag = attach(&w, "one", "v");
	ck_assert_str_eq(tag, "another-devices-tag");
	ck_assert(there(FN0) && !there(FN0 "/driver"));
	world_wait(&w, "dpuvolumeattachments/one-v", "status.dpu.pciAddress", "0000:26:00.1");
	world_wait(&w, "dpuvolumeattachments/one-v", "status.dpu.pciAddress", SLOT0);
	world_heal(&w);
	say(DRIVER "/bind", SLOT0);
	until_there("sys/fs/virtiofs/0");
	free(tag);
	tag = content("sys/fs/virtiofs/0/tag");
	mount = mounted_at("one", tag);
	ck_assert(is_mounted(mount));
}
END_TEST

START_TEST(no_daemon_is_left_at_the_end)
{
	char *tag AUTO(free) = NULL;
	char *mount AUTO(free) = NULL;

	SKIP_UNLESS_FUSE();
	{
		struct sim_world w AUTO(world_end) = { 0 };

		SHARE_HOST(w, "--vfs=1");
		make_volume(&w, "v");
		tag = attach(&w, "one", "v");
		mount = mounted_at("one", tag);
		ck_assert(is_mounted(mount));
		do_share(&w, "stop", 200);
	}
	ck_assert(!path_exists(state));
}
END_TEST

SUITE_AROUND("sim virtio-fs", 60, host_tree_make, host_tree_remove,
             a_share_is_a_hot_plugged_function_with_a_tag, two_nodes_read_and_write_one_volume,
             a_blacklisting_host_binds_when_asked, an_old_kernel_shows_no_tags,
             of_two_devices_with_one_tag_the_second_gets_no_driver,
             its_daemon_dies_hangs_and_comes_back, it_is_unplugged_and_comes_back_in_another_slot,
             it_misbehaves_as_told, no_daemon_is_left_at_the_end);
