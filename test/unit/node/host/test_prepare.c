/* SPDX-License-Identifier: Apache-2.0 */
/* The preparation of a host for its first volume: modprobe is a script here, sysfs a folder. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/host/prepare.h"
#include "node/service.h"
#include "test/lib/suite.h"

static char root[] = "/tmp/test_prepare.XXXXXX";
static struct strs vendors;
static struct device_world world = { .dev = "/dev", .vendors = &vendors, .snap_device_id = "6001" };

static void make_dir(const char *name)
{
	struct err err = ERR_INIT;
	char *path = xasprintf("%s/%s", root, name);
	ck_assert_msg(!dir_make(path, 0755, &err), "%s", err.msg);
	free(path);
}

static void make_file(const char *name, const char *text, mode_t mode)
{
	struct err err = ERR_INIT;
	char *path = xasprintf("%s/%s", root, name);
	ck_assert_msg(!file_replace(path, text, strlen(text), mode, &err), "%s", err.msg);
	free(path);
}

/* A sysfs with one SNAP PF, and a modprobe that records its arguments. */
static void set_up(void)
{
	static char tools[100], sysfs[100];
	char *link;
	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(tools, sizeof(tools), "%s/tools", root);
	snprintf(sysfs, sizeof(sysfs), "%s/sys", root);
	make_dir("tools");
	make_dir("sys/bus/pci/devices/0000:01:00.0");
	make_file("sys/bus/pci/devices/0000:01:00.0/vendor", "0x15b3\n", 0644);
	make_file("sys/bus/pci/devices/0000:01:00.0/device", "0x6001\n", 0644);
	make_file("sys/bus/pci/devices/0000:01:00.0/class", "0x010802\n", 0644);
	make_file("sys/bus/pci/devices/0000:01:00.0/sriov_totalvfs", "4\n", 0644);
	make_file("sys/bus/pci/devices/0000:01:00.0/sriov_numvfs", "0\n", 0644);
	make_file("sys/bus/pci/devices/0000:01:00.0/sriov_drivers_autoprobe", "1\n", 0644);
	make_dir("sys/bus/pci/drivers");
	link = xasprintf("%s/bus/pci/devices/0000:01:00.0/driver", sysfs);
	ck_assert(!symlink("../../drivers/nvme", link));
	free(link);
	strs_add(&vendors, "15b3");
	world.sysfs = sysfs;
	spawn_set_path(tools);
}

static void tear_down(void)
{
	char *command = xasprintf("rm -rf '%s'", root);
	ck_assert_int_eq(system(command), 0);
	free(command);
	strs_clear(&vendors);
	memcpy(root + strlen(root) - 6, "XXXXXX", 6);
}

static void make_modprobe(const char *lines)
{
	char *script = xasprintf("#!/bin/sh\necho \"$*\" >>%s/asked\n%s\n", root, lines);
	make_file("tools/modprobe", script, 0755);
	free(script);
}

static char *content(const char *name)
{
	struct err err = ERR_INIT;
	char *path = xasprintf("%s/%s", root, name), *text = NULL;
	if (!path_exists(path) || file_read_line(path, 1000, &text, &err))
		text = xstrdup("");
	free(path);
	return text;
}

static int prepare(bool load, bool create, struct str *did, struct err *err)
{
	struct node n;
	const struct node_options options = {
		.id = "n", .world = world, .load_driver = load, .create_vfs = create
	};
	int rc;
	node_init(&n, &options);
	rc = node_prepare(&n, did, err);
	node_clear(&n);
	return rc;
}

#define FILE_IS(name, want)                    \
	do {                                   \
		char *text_ = content(name);   \
		ck_assert_str_eq(text_, want); \
		free(text_);                   \
	} while (0)
#define NUMVFS "sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"

START_TEST(what_is_missing_is_done_once)
{
	struct err err = ERR_INIT;
	struct str did = STR_INIT(500);
	set_up();
	make_modprobe("exit 0");
	ck_assert_msg(!prepare(true, true, &did, &err), "%s", err.msg);
	ck_assert_str_eq(did.ptr, "loaded nvme, 4 VFs on 0000:01:00.0");
	FILE_IS("asked", "nvme");
	FILE_IS(NUMVFS, "4");
	FILE_IS("sys/bus/pci/devices/0000:01:00.0/sriov_drivers_autoprobe", "0");
	make_dir("sys/bus/pci/drivers/nvme");
	str_reset(&did);
	ck_assert_msg(!prepare(true, true, &did, &err), "%s", err.msg);
	ck_assert_str_eq(did.ptr, "");
	FILE_IS("asked", "nvme");
	str_clear(&did);
	tear_down();
}
END_TEST

START_TEST(what_is_switched_off_is_left_alone)
{
	struct err err = ERR_INIT;
	struct str did = STR_INIT(500);
	set_up();
	make_modprobe("exit 0");
	ck_assert(!prepare(false, false, &did, &err));
	ck_assert_str_eq(did.ptr, "");
	FILE_IS("asked", "");
	FILE_IS(NUMVFS, "0");
	tear_down();
}
END_TEST

START_TEST(a_failed_modprobe_is_told_and_the_rest_done)
{
	struct err err = ERR_INIT;
	struct str did = STR_INIT(500);
	set_up();
	make_modprobe("echo 'modprobe: FATAL: Module nvme not found.' >&2; exit 1");
	ck_assert_int_eq(prepare(true, true, &did, &err), -1);
	ck_assert_str_eq(did.ptr, "4 VFs on 0000:01:00.0");
	ck_assert_str_eq(err.msg,
	                 "load the kernel module nvme: modprobe exited with 1: modprobe: FATAL: "
	                 "Module nvme not found.");
	str_clear(&did);
	tear_down();
}
END_TEST

/* ---- virtio-fs ---- */

#define HERE(name) "mkdir -p $(dirname $0)/../sys/bus/" name
#define MAKES                                                                  \
	"case $1 in virtiofs) " HERE("virtio/drivers/virtiofs") ";; *) " HERE( \
		"pci/drivers/virtio-pci") ";; esac"

static int load_virtiofs(bool allowed, struct err *err)
{
	const struct node_options options = { .id = "n", .world = world, .load_virtiofs = allowed };
	struct node n;
	int rc;

	node_init(&n, &options);
	rc = node_load_virtiofs(&n, err);
	node_clear(&n);
	return rc;
}

START_TEST(what_virtio_fs_needs_is_loaded_once_and_only_when_it_is_allowed)
{
	struct err err = ERR_INIT;

	set_up();
	make_modprobe(MAKES);
	ck_assert(!load_virtiofs(false, &err));
	FILE_IS("asked", "");
	ck_assert_msg(!load_virtiofs(true, &err), "%s", err.msg);
	FILE_IS("asked", "virtio_pci\nvirtiofs");
	ck_assert_msg(!load_virtiofs(true, &err), "%s", err.msg);
	FILE_IS("asked", "virtio_pci\nvirtiofs");
	tear_down();
}
END_TEST

START_TEST(where_virtio_pci_is_there_already_only_the_rest_is_loaded)
{
	struct err err = ERR_INIT;

	set_up();
	make_modprobe(MAKES);
	make_dir("sys/bus/pci/drivers/virtio-pci");
	ck_assert_msg(!load_virtiofs(true, &err), "%s", err.msg);
	FILE_IS("asked", "virtiofs");
	tear_down();
}
END_TEST

START_TEST(a_kernel_without_virtio_fs_says_what_to_install)
{
	struct err err = ERR_INIT;

	set_up();
	make_modprobe("[ $1 = virtio_pci ] || { echo 'modprobe: FATAL: Module virtiofs not found "
	              "in directory /lib/modules/6.1' >&2; exit 1; }");
	ck_assert_int_eq(load_virtiofs(true, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "load the kernel module virtiofs: modprobe exited with 1: "
	                              "modprobe: FATAL: Module virtiofs not found in directory "
	                              "/lib/modules/6.1 (a kernel that was built without "
	                              "CONFIG_VIRTIO_FS cannot serve virtio-fs volumes"),
	              "%s", err.msg);
	tear_down();
}
END_TEST

START_TEST(a_modprobe_that_was_killed_is_told)
{
	struct err err = ERR_INIT;

	set_up();
	make_modprobe("kill -9 $$");
	ck_assert_int_eq(load_virtiofs(true, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "load the kernel module virtio_pci: "), "%s", err.msg);
	tear_down();
}
END_TEST

START_TEST(at_the_start_virtio_fs_is_prepared_only_where_it_is_the_default)
{
	static const struct {
		enum emulation emulation;
		bool load_driver, load_virtiofs;
		const char *did;
	} rows[] = {
		{ EMULATION_NVME, true, true, "loaded nvme" },
		{ EMULATION_VIRTIOFS, true, true,
		  "loaded nvme, loaded virtio_pci, loaded virtiofs" },
		{ EMULATION_VIRTIOFS, false, true, "loaded virtio_pci, loaded virtiofs" },
		{ EMULATION_VIRTIOFS, true, false, "loaded nvme" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		struct str did AUTO(str_clear) = STR_INIT(500);
		struct node_options o = { .id = "n",
			                  .load_driver = rows[i].load_driver,
			                  .load_virtiofs = rows[i].load_virtiofs,
			                  .emulation = rows[i].emulation };
		struct node n;

		set_up();
		make_modprobe("exit 0");
		o.world = world;
		node_init(&n, &o);
		ck_assert_msg(!node_prepare(&n, &did, &err), "%s", err.msg);
		node_clear(&n);
		ck_assert_str_eq(did.ptr, rows[i].did);
		tear_down();
	}
}
END_TEST

START_TEST(each_failure_is_told_and_the_rest_is_done)
{
	struct err err = ERR_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);
	struct node_options o = { .id = "n",
		                  .load_driver = true,
		                  .load_virtiofs = true,
		                  .create_vfs = true,
		                  .emulation = EMULATION_VIRTIOFS };
	struct node n;

	set_up();
	make_modprobe("echo no; exit 1");
	o.world = world;
	node_init(&n, &o);
	ck_assert_int_eq(node_prepare(&n, &did, &err), -1);
	node_clear(&n);
	ck_assert_str_eq(err.msg,
	                 "load the kernel module nvme: modprobe exited with 1: no; load the kernel "
	                 "module virtio_pci: modprobe exited with 1: no");
	ck_assert_str_eq(did.ptr, "4 VFs on 0000:01:00.0");
	tear_down();
}
END_TEST

SUITE("prepare", what_is_missing_is_done_once, what_is_switched_off_is_left_alone,
      a_failed_modprobe_is_told_and_the_rest_done,
      what_virtio_fs_needs_is_loaded_once_and_only_when_it_is_allowed,
      where_virtio_pci_is_there_already_only_the_rest_is_loaded,
      a_kernel_without_virtio_fs_says_what_to_install, a_modprobe_that_was_killed_is_told,
      at_the_start_virtio_fs_is_prepared_only_where_it_is_the_default,
      each_failure_is_told_and_the_rest_is_done);
