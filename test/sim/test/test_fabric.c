/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices: their tree compared with recorded ones and read by the driver's own discovery, the
 * host's writes, the effects of faults, and complete removal.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/device/device.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/fabric/loopdev.h"
#include "test/sim/fabric/state_dir.h"
#include "test/sim/test/harness.h"
#include "test/sim/test/host_tree.h"
#include "test/sim/test/tree_shape.h"

#define VF0 "0000:26:00.1"
#define VF1 "0000:26:00.2"
#define PF "0000:26:00.0"
#define PLAIN_HOST(w) HOST(w, "--vfs=4")
#define BYTES (64 * 1024 * 1024)

static void attach(struct sim_world *w, const char *name, const char *volume)
{
	world_make_attachment(w, name, "one", volume);
	json_free(world_attached(w, name));
}

static void detach(struct sim_world *w, const char *name)
{
	char *object AUTO(free) = xasprintf("dpuvolumeattachments/%s", name);
	char *path AUTO(free) = xasprintf(ATTACHMENTS "/%s", name);

	world_ok(w, "DELETE", path, NULL, 200);
	world_wait(w, object, NULL, NULL);
}

static void bind(const char *bdf)
{
	char *override AUTO(free) = xasprintf("sys/bus/pci/devices/%s/driver_override", bdf);
	char *driver AUTO(free) = xasprintf("sys/bus/pci/devices/%s/driver", bdf);

	say(override, "nvme");
	say("sys/bus/pci/drivers/nvme/bind", bdf);
	until_there(driver);
}

/* ---- shape ---- */

/* Attributes that kernels have, but recorded trees leave out. */
static bool not_recorded(const char *line)
{
	static const char *const parts[] = { "/queue/", "/numa_node", "/vpd", "drivers_autoprobe",
		                             "/module/virtiofs/" };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strstr(line, parts[i]))
			return true;
	return false;
}

START_TEST(the_tree_has_the_shape_of_recorded_ones)
{
	static const struct {
		const char *option, *recorded, *disk;
	} rows[] = {
		{ "--vfs=4", "s3-multipath-attached", "sys/class/nvme-generic/ng1n1" },
		{ "--dpf=25.7", "s3-multipath-attached", "sys/class/nvme-generic/ng0n1" },
		{ "--no-multipath", "s6-two-pfs-no-multipath", "sys/class/nvme-generic/ng1n1" },
	};

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sim_world w AUTO(world_end) = { 0 };
		struct tree recorded AUTO(tree_clear);
		struct strs want AUTO(strs_clear) = STRS_INIT;
		struct strs got AUTO(strs_clear) = STRS_INIT;
		char *sysfs AUTO(free) = at("sys");

		HOST(w, rows[i].option, "--hotplug-slots=0");
		tree_unpack(&recorded, rows[i].recorded);
		want = tree_shape(recorded.sysfs);
		world_make_volume(&w, "v");
		attach(&w, "one-v", "v");
		bind(VF0);
		until_there(rows[i].disk);
		got = tree_shape(sysfs);
		ck_assert_uint_gt(got.n, 60);
		for (size_t k = 0; k < got.n; k++)
			ck_assert_msg(not_recorded(got.v[k]) || strs_has(&want, got.v[k]),
			              "%s has no %s", rows[i].recorded, got.v[k]);
	}
}
END_TEST

/* ---- discovery ---- */

/* Finds the device that an attachment's status names, with the driver's own code. */
static void find_as(struct sim_world *w, const char *attachment, bool character, struct device *ret)
{
	struct json *o AUTO(json_free) = world_attached(w, attachment);
	struct strs vendors AUTO(strs_clear) = STRS_INIT;
	char *sys AUTO(free) = at("sys");
	char *dev AUTO(free) = at("dev");
	struct device_world world = {
		.sysfs = sys, .dev = dev, .vendors = &vendors, .snap_device_id = "6001"
	};
	struct err err = ERR_INIT;
	int64_t nsid = 0;
	struct device_want want;

	strs_add(&vendors, "15b3");
	ck_assert_int_eq(json_get_i64(o, "status.dpu.nvmeAttrs.namespaceID", &nsid, &err), 0);
	want = (struct device_want) {
		.volume_id = "v",
		.pci = json_str(o, "status.dpu.pciAddress"),
		.vuid = json_str(o, "status.dpu.funcVUID"),
		.nsid = (uint32_t)nsid,
		.uuid = json_str(o, "status.dpu.nvmeAttrs.namespaceUUID"),
		.capacity = character ? 0 : BYTES,
		.character = character,
		.function = str_eq(json_str(o, "spec.functionType"), "pf") ? DEVICE_FUNCTION_PF
		                                                           : DEVICE_FUNCTION_VF,
	};
	ck_assert_msg(device_wait(&world, &want, deadline_in_ms(PATIENCE_MS), ret, &err) == 0, "%s",
	              err.msg);
}

static void find_by_status(struct sim_world *w, const char *attachment, struct device *ret)
{
	find_as(w, attachment, false, ret);
}

START_TEST(the_driver_binds_the_function_and_finds_the_disk)
{
	static const struct {
		const char *options[3];
		const char *name;
	} rows[] = {
		{ { "--vfs=4", "--vfs=4", "--vfs=4" }, "nvme1n1" },
		{ { "--no-multipath", "--sector-size=4096", "--short-pci-address" }, "nvme1n1" },
		{ { "--hide-uuid", "--hide-uuid", "--vfs=9" }, "nvme1n1" },
		{ { "--bind-vfs", "--dpf=25.7", "--vfs=2" }, "nvme0n1" },
	};

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sim_world w AUTO(world_end) = { 0 };
		int fd AUTO(fd) = -1;
		struct device dev;
		struct err err = ERR_INIT;

		HOST(w, rows[i].options[0], rows[i].options[1], rows[i].options[2]);
		world_make_volume(&w, "v");
		attach(&w, "one-v", "v");
		find_by_status(&w, "one-v", &dev);
		ck_assert_str_eq(dev.name, rows[i].name);
		ck_assert_str_eq(dev.pci, VF0);
		ck_assert_uint_eq(dev.size, BYTES);
		ck_assert_msg(device_open(&dev, O_RDONLY | O_NONBLOCK, &fd, NULL, &err) == 0, "%s",
		              err.msg);
	}
}
END_TEST

START_TEST(namespace_numbers_are_not_disk_numbers)
{
	struct sim_world w AUTO(world_end) = { 0 };
	struct device dev;

	SKIP_UNLESS_LOOP();
	HOST(w, "--bind-vfs", "--dpf=25.7");
	world_make_volume(&w, "a");
	attach(&w, "one-a", "a");
	world_make_volume(&w, "b");
	attach(&w, "one-b", "b");
	detach(&w, "one-a");
	world_make_volume(&w, "c");
	attach(&w, "one-c", "c");
	find_by_status(&w, "one-c", &dev);
	ck_assert_str_eq(dev.name, "nvme0n1");
	ck_assert_uint_eq(dev.nsid, 3);
}
END_TEST

/* ---- what the host writes ---- */

/* A volume with the parameter of DPF's key/value volumes. */
static void make_key_value(struct sim_world *w, const char *name)
{
	char *body AUTO(free) = volume_json_text(name, "example-policy");
	struct json *o AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	ck_assert_int_eq(json_parse("volume", body, strlen(body), &o, &err), 0);
	json_set_str(json_sub(json_sub(o, "spec"), "parameters"), "memos_subsystem_nqn", "nqn.x");
	text = json_print(o);
	world_ok(w, "POST", VOLUMES, text, 201);
}

START_TEST(a_key_value_namespace_has_a_character_device_and_no_disk)
{
	static const char *const options[] = { "--vfs=4", "--no-multipath" };

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		struct sim_world w AUTO(world_end) = { 0 };
		struct device found;
		char *hidden AUTO(free) = NULL;
		struct stat st;

		HOST(w, options[i]);
		make_key_value(&w, "v");
		attach(&w, "one-v", "v");
		bind(VF0);
		find_as(&w, "one-v", true, &found);
		ck_assert(found.character && found.size == 0);
		ck_assert_str_eq(found.name, "ng1n1");
		ck_assert_int_eq(stat(found.path, &st), 0);
		ck_assert(S_ISCHR(st.st_mode) && st.st_rdev == found.devno);
		ck_assert(!there("dev/nvme1n1"));
		hidden = content("sys/class/block/nvme1n1/hidden");
		ck_assert_str_eq(hidden, "1");
		detach(&w, "one-v");
		ck_assert(!path_exists(found.path));
	}
}
END_TEST

START_TEST(a_function_is_bound_by_the_rules_of_the_kernel)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *uevent AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	PLAIN_HOST(w);
	/*
	 * Neither an override nor autoprobe: refused. The second write proves that the first was
	 * read.
	 */
	say("sys/bus/pci/drivers/nvme/bind", VF0);
	bind(VF1);
	ck_assert(!there("sys/bus/pci/devices/" VF0 "/driver"));
	say("sys/bus/pci/devices/" VF0 "/driver_override", "vfio-pci");
	say("sys/bus/pci/drivers/nvme/bind", VF0 "\n");
	say("sys/bus/pci/drivers/nvme/unbind", VF1);
	until_gone("sys/bus/pci/devices/" VF1 "/driver");
	until_gone("sys/bus/pci/drivers/nvme/" VF1);
	until_gone("sys/class/nvme/nvme1");
	ck_assert(!there("sys/bus/pci/devices/" VF0 "/driver"));
	say("sys/bus/pci/devices/" VF0 "/driver_override", "\n");
	say("sys/bus/pci/devices/" PF "/sriov_drivers_autoprobe", "1");
	say("sys/bus/pci/drivers_probe", VF0);
	until_there("sys/bus/pci/devices/" VF0 "/driver");
	uevent = content("sys/bus/pci/devices/" VF0 "/uevent");
	ck_assert_ptr_nonnull(strstr(uevent, "DRIVER=nvme"));
}
END_TEST

START_TEST(an_empty_override_reads_as_none)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *text AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	PLAIN_HOST(w);
	say("sys/bus/pci/devices/" VF0 "/driver_override", "nvme");
	text = content("sys/bus/pci/devices/" VF0 "/driver_override");
	ck_assert_str_eq(text, "nvme");
	until_obeyed("sys/bus/pci/devices/" VF0);
}
END_TEST

/*
 * A snap-sim that reacts to its own writes would never stop writing: there must be a quiet moment
 * within a second.
 */
START_TEST(a_driver_override_is_answered_once)
{
	static const char below[] = "sys/bus/pci/devices/" VF0 "/driver_override";
	int events AUTO(fd) = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char text[4096];
	bool quiet = false;
	struct sim_world w AUTO(world_end) = { 0 };
	char *path AUTO(free) = at(below);

	SKIP_UNLESS_LOOP();
	PLAIN_HOST(w);
	ck_assert_int_ge(inotify_add_watch(events, path, IN_CLOSE_WRITE), 0);
	say(below, "nvme");
	until_obeyed("sys/bus/pci/devices/" VF0);
	for (int i = 0; !quiet && i < 20; i++) {
		while (read(events, text, sizeof(text)) > 0)
			;
		usleep(50000);
		quiet = read(events, text, sizeof(text)) < 0;
	}
	ck_assert_msg(quiet, "snap-sim writes %s again and again", below);
}
END_TEST

START_TEST(two_writes_that_arrive_together_are_both_obeyed)
{
	struct sim_world w AUTO(world_end) = { 0 };

	SKIP_UNLESS_LOOP();
	PLAIN_HOST(w);
	say("sys/bus/pci/devices/" VF0 "/driver_override", "nvme");
	say("sys/bus/pci/devices/" VF1 "/driver_override", "nvme");
	say("sys/bus/pci/drivers/nvme/bind", VF0 VF1);
	until_there("sys/bus/pci/devices/" VF0 "/nvme/nvme1");
	until_there("sys/bus/pci/devices/" VF1 "/nvme/nvme2");
}
END_TEST

START_TEST(virtual_functions_come_and_go_with_their_number)
{
	struct sim_world w AUTO(world_end) = { 0 };

	SKIP_UNLESS_LOOP();
	HOST(w, "--no-vfs");
	ck_assert(!there("sys/bus/pci/devices/" VF0));
	world_make_volume(&w, "v");
	attach(&w, "one-v", "v");
	say("sys/bus/pci/devices/" PF "/sriov_numvfs", "2");
	until_there("sys/bus/pci/devices/" PF "/virtfn1");
	until_there("dev/nvme1n1"); /* autoprobe is 1 here */
	ck_assert(!there("sys/bus/pci/devices/" PF "/virtfn2"));
	say("sys/bus/pci/devices/" PF "/sriov_numvfs", "0");
	until_gone("sys/bus/pci/devices/" VF0);
	until_gone("dev/nvme1n1");
	until_gone("sys/bus/pci/devices/" PF "/virtfn0");
}
END_TEST

/* ---- data ---- */

static void write_disk(const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf("%s/one/dev/%s", state, name);
	int fd AUTO(fd) = open(path, O_WRONLY | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "%s: %d", path, errno);
	ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	ck_assert_int_eq(fsync(fd), 0);
}

static void read_disk(const char *name, off_t offset, const char *want)
{
	char *path AUTO(free) = xasprintf("%s/one/dev/%s", state, name);
	int fd AUTO(fd) = open(path, O_RDONLY | O_CLOEXEC);
	char buf[64] = "";

	ck_assert_msg(fd >= 0, "%s: %d", path, errno);
	ck_assert_int_eq(pread(fd, buf, strlen(want), offset), (ssize_t)strlen(want));
	ck_assert_str_eq(buf, want);
}

START_TEST(data_survive_detaching_and_go_with_the_volume)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *image AUTO(free) = xasprintf("%s/images/" NS ".v", state);

	SKIP_UNLESS_LOOP();
	HOST(w, "--bind-vfs");
	world_make_volume(&w, "v");
	attach(&w, "one-v", "v");
	until_there("dev/nvme1n1");
	write_disk("nvme1n1", "precious");
	detach(&w, "one-v");
	ck_assert(!there("dev/nvme1n1"));
	ck_assert(!there("sys/class/block/nvme1n1"));
	ck_assert(!there("sys/class/block/nvme1c1n1"));
	ck_assert(!loopdev_is_over(image));
	attach(&w, "one-v", "v");
	until_there("dev/nvme1n1");
	read_disk("nvme1n1", 0, "precious");
	detach(&w, "one-v");
	ck_assert(path_exists(image));
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
	ck_assert(!path_exists(image));
}
END_TEST

START_TEST(a_disk_that_is_still_open_is_not_attached_again)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *node AUTO(free) = at("dev/nvme1n1");
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	HOST(w, "--bind-vfs");
	world_make_volume(&w, "v");
	attach(&w, "one-v", "v");
	fd = open(node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	detach(&w, "one-v");
	ck_assert(!there("dev/nvme1n1"));
	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUAttached", "Pending",
	                     "is still in use");
	close(TAKE_FD(fd));
	json_free(world_attached(&w, "one-v"));
}
END_TEST

/*
 * The attachment retries after some time. Formerly its own release of the function woke it, so that
 * the thread never slept, nor noticed that it had to end.
 */
START_TEST(an_attachment_that_waits_for_an_open_disk_leaves_time_to_end)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *node AUTO(free) = at("dev/nvme1n1");
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	HOST(w, "--bind-vfs");
	world_make_volume(&w, "v");
	attach(&w, "one-v", "v");
	fd = open(node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	detach(&w, "one-v");
	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUAttached", "Pending",
	                     "is still in use");
	world_end(&w);
	w = (struct sim_world) { 0 };
}
END_TEST

START_TEST(a_disk_grows_where_it_is)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *node AUTO(free) = at("dev/nvme1n1");
	char *head AUTO(free) = NULL;
	char *path AUTO(free) = NULL;
	int fd AUTO(fd) = -1;
	uint64_t bytes = 0;

	SKIP_UNLESS_LOOP();
	HOST(w, "--bind-vfs");
	world_make_volume(&w, "v");
	attach(&w, "one-v", "v");
	world_ok(&w, "POST", "/sim/resize", "{\"volume\":\"v\",\"bytes\":134217728}", 200);
	fd = open(node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(ioctl(fd, BLKGETSIZE64, &bytes), 0);
	ck_assert_uint_eq(bytes, 134217728);
	head = content("sys/class/block/nvme1n1/size");
	path = content("sys/class/block/nvme1c1n1/size");
	ck_assert_str_eq(head, "262144");
	ck_assert_str_eq(path, "262144");
}
END_TEST

START_TEST(a_hot_plugged_function_is_there_while_it_has_a_volume)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *body AUTO(free) = attachment_json_text("hot", "one", "v", "pf", true);
	struct device dev;

	SKIP_UNLESS_LOOP();
	HOST(w, "--hotplug-slots=2");
	world_make_volume(&w, "v");
	world_ok(&w, "POST", ATTACHMENTS, body, 201);
	json_free(world_attached(&w, "hot"));
	find_by_status(&w, "hot", &dev);
	ck_assert_str_eq(dev.pci, "0000:30:00.0");
	detach(&w, "hot");
	ck_assert(!there("sys/bus/pci/devices/0000:30:00.0"));
	ck_assert(!there("sys/class/nvme/nvme1"));
}
END_TEST

START_TEST(the_slots_of_a_host_are_seen_by_the_driver)
{
	static const struct {
		const char *option;
		unsigned slots;
	} rows[] = { { "--vfs=1", 0 }, { "--hotplug-slots=1", 1 }, { "--hotplug-slots=31", 31 } };

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sim_world w AUTO(world_end) = { 0 };
		struct strs vendors AUTO(strs_clear) = STRS_INIT;
		char *sys AUTO(free) = at("sys");
		struct device_world world = { .sysfs = sys,
			                      .vendors = &vendors,
			                      .snap_device_id = "6001" };
		struct err err = ERR_INIT;
		unsigned n = 77;

		strs_add(&vendors, "15b3");
		HOST(w, rows[i].option);
		ck_assert_int_eq(device_count_slots(&world, &n, NULL, &err), 0);
		ck_assert_uint_eq(n, rows[i].slots);
	}
}
END_TEST

START_TEST(a_function_is_unplugged_and_comes_back_in_another_slot)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *body AUTO(free) = attachment_json_text("hot", "one", "v", "pf", true);
	struct device before, dev;
	int fd AUTO(fd) = -1;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	HOST(w, "--hotplug-slots=3");
	world_make_volume(&w, "v");
	world_ok(&w, "POST", "/sim/unplug", "{\"volume\":\"v\"}", 404);
	world_ok(&w, "POST", ATTACHMENTS, body, 201);
	json_free(world_attached(&w, "hot"));
	find_by_status(&w, "hot", &before);
	ck_assert_int_eq(device_open(&before, O_RDONLY, &fd, NULL, &err), 0);
	world_ok(&w, "POST", "/sim/plug", "{\"volume\":\"v\"}", 409);
	world_ok(&w, "POST", "/sim/unplug", "{\"volume\":\"v\"}", 200);
	ck_assert(!there("sys/bus/pci/devices/0000:30:00.0"));
	ck_assert(!there("dev/nvme1n1"));
	world_ok(&w, "POST", "/sim/unplug", "{\"volume\":\"v\"}", 409);
	/* Two disks over one image would not see each other's pages. */
	world_ok(&w, "POST", "/sim/plug", "{\"volume\":\"v\"}", 409);
	close(TAKE_FD(fd));
	world_ok(&w, "POST", "/sim/plug", "{\"volume\":\"v\",\"slot\":7}", 409);
	world_ok(&w, "POST", "/sim/plug", "{\"volume\":\"v\",\"slot\":2}", 200);
	/* The status has the old address: the driver finds it by its VUID. */
	find_by_status(&w, "hot", &dev);
	ck_assert_str_eq(dev.pci, "0000:32:00.0");
	ck_assert_str_eq(dev.uuid, before.uuid);
	ck_assert(dev.diskseq != before.diskseq || !dev.diskseq);
	detach(&w, "hot");
	ck_assert(!there("sys/bus/pci/devices/0000:32:00.0"));
	/* The next volume is in the first slot again. */
	world_ok(&w, "POST", ATTACHMENTS, body, 201);
	json_free(world_attached(&w, "hot"));
	find_by_status(&w, "hot", &dev);
	ck_assert_str_eq(dev.pci, "0000:30:00.0");
}
END_TEST

/* ---- faults ---- */

START_TEST(devices_misbehave_as_told)
{
	struct sim_world w AUTO(world_end) = { 0 };
	char *path AUTO(free) = at("sys/bus/pci/drivers/nvme/bind");
	struct err err = ERR_INIT;
	struct timespec moment = { .tv_nsec = 1000000 };

	SKIP_UNLESS_LOOP();
	PLAIN_HOST(w);
	world_ok(&w, "POST", "/sim/faults",
	         "[{\"dpf\":\"device-late\",\"name\":\"^a$\",\"ms\":150},"
	         "{\"dpf\":\"foreign-data\",\"name\":\"^a$\",\"text\":\"LUKS\",\"value\":\"512\"},"
	         "{\"dpf\":\"bind-ignored\",\"name\":\"" VF1 "\"}]",
	         200);
	bind(VF0);
	world_make_volume(&w, "a");
	attach(&w, "one-a", "a");
	ck_assert(!there("dev/nvme1n1"));
	until_there("dev/nvme1n1");
	read_disk("nvme1n1", 512, "LUKS");
	say("sys/bus/pci/devices/" VF1 "/driver_override", "nvme");
	say("sys/bus/pci/drivers/nvme/bind", VF1 "0000:26:00.3");
	say("sys/bus/pci/drivers/nvme/unbind", VF0);
	until_gone("dev/nvme1n1");
	ck_assert(!there("sys/bus/pci/devices/" VF1 "/driver"));
	world_ok(&w, "POST", "/sim/faults", "{\"dpf\":\"bind-refused\"}", 200);
	for (int i = 0; i < PATIENCE_MS && file_write(path, VF1, &err) == 0; i++)
		nanosleep(&moment, NULL);
	ck_assert_int_eq(err.sys, ENXIO);
	world_ok(&w, "DELETE", "/sim/faults", NULL, 200);
	for (int i = 0; i < PATIENCE_MS; i++) {
		struct err again = ERR_INIT;

		if (file_write(path, VF1, &again) == 0)
			break;
		nanosleep(&moment, NULL);
	}
	until_there("sys/bus/pci/devices/" VF1 "/driver");
}
END_TEST

START_TEST(everything_is_gone_at_the_end)
{
	char *image AUTO(free) = xasprintf("%s/images/" NS ".v", state);
	char *node AUTO(free) = NULL;
	struct stat st = { 0 };

	SKIP_UNLESS_LOOP();
	{
		struct sim_world w AUTO(world_end) = { 0 };

		HOST(w, "--bind-vfs");
		world_make_volume(&w, "v");
		attach(&w, "one-v", "v");
		node = at("dev/nvme1n1");
		ck_assert_int_eq(stat(node, &st), 0);
		ck_assert(loopdev_is_over(image));
	}
	ck_assert(!path_exists(state));
	ck_assert(!loop_is_below(minor(st.st_rdev), host_tree_base));
}
END_TEST

SUITE_AROUND("sim fabric", 60, host_tree_make, host_tree_remove,
             the_tree_has_the_shape_of_recorded_ones,
             the_driver_binds_the_function_and_finds_the_disk,
             namespace_numbers_are_not_disk_numbers,
             a_key_value_namespace_has_a_character_device_and_no_disk,
             a_function_is_bound_by_the_rules_of_the_kernel, an_empty_override_reads_as_none,
             a_driver_override_is_answered_once, two_writes_that_arrive_together_are_both_obeyed,
             virtual_functions_come_and_go_with_their_number,
             data_survive_detaching_and_go_with_the_volume,
             a_disk_that_is_still_open_is_not_attached_again,
             an_attachment_that_waits_for_an_open_disk_leaves_time_to_end, a_disk_grows_where_it_is,
             a_hot_plugged_function_is_there_while_it_has_a_volume,
             the_slots_of_a_host_are_seen_by_the_driver,
             a_function_is_unplugged_and_comes_back_in_another_slot, devices_misbehave_as_told,
             everything_is_gone_at_the_end);
