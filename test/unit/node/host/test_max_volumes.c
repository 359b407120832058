/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of volumes of a node: counted, remembered, guessed; the stored number and the log
 * lines.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/detached.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "node/device/sysfs.h"
#include "node/health.h"
#include "node/host/max_volumes.h"
#include "node/service.h"
#include "node/host/prepare.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"
#include "test/lib/virtio_function.h"
#include "test/lib/wait.h"

#define PF "/sys/bus/pci/devices/0000:01:00.0"

static char *vendor_list[] = { (char *)"15b3", NULL };
static const struct strs vendors = { vendor_list, 1 };
static struct tree tree;
static struct node node;
static char plugin_dir[128];
static struct strs lines;
static int64_t wait_ms = WAIT_LIMIT_MS;
static bool create_vfs;

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	strs_add(&lines, line);
}

/* As after a start of the driver. */
static void start(void)
{
	node_init(&node, &(struct node_options) { .id = "n1",
	                                          .world = { .sysfs = tree.sysfs,
	                                                     .dev = tree.dev,
	                                                     .vendors = &vendors,
	                                                     .snap_device_id = "6001" },
	                                          .proc_root = "/proc",
	                                          .plugin_dir = plugin_dir,
	                                          .create_vfs = create_vfs,
	                                          .tuning.host_wait_ms = wait_ms });
	strs_clear(&lines);
	lines = (struct strs)STRS_INIT;
}

static void restart(void)
{
	node_clear(&node);
	start();
}

static void begin(void)
{
	tree_unpack(&tree, NULL);
	tree_mkdir(&tree, "/sys/bus/pci/devices");
	snprintf(plugin_dir, sizeof(plugin_dir), "%s/plugin", tree.root);
	start();
	log_redirect(keep_line, NULL);
}

static void end(void)
{
	log_redirect(NULL, NULL);
	node_clear(&node);
	strs_clear(&lines);
	lines = (struct strs)STRS_INIT;
	tree_clear(&tree);
}

/* A static PF with VFs, as the kernel shows them after their creation. */
static void add_vfs(unsigned n)
{
	tree_write(&tree, PF "/vendor", "0x15b3\n");
	tree_write(&tree, PF "/device", "0x6001\n");
	tree_write(&tree, PF "/class", "0x010802\n");
	for (unsigned i = 0; i < n; i++) {
		char *link AUTO(free) = xasprintf(PF "/virtfn%u", i);

		tree_link(&tree, link, "../0000:01:00.1");
	}
}

static void answers(int64_t n, enum max_volumes_source source)
{
	struct max_volumes m;
	struct err err = ERR_INIT;

	ck_assert_msg(!max_volumes_answer(&node, wait_limit(), &m, &err), "%s", err.msg);
	ck_assert_msg(m.n == n && m.source == source, "%lld by %d: %s", (long long)m.n,
	              (int)m.source, m.where);
}

static void logged(size_t n, const char *level, const char *words)
{
	ck_assert_msg(lines.n == n, "%zu lines, the last: %s", lines.n,
	              lines.n ? lines.v[lines.n - 1] : "none");
	ck_assert_msg(strstr(lines.v[n - 1], words) && lines.v[n - 1][0] == *level, "%s",
	              lines.v[n - 1]);
}

static void well_but(const char *reason, const char *other)
{
	const char *const want[] = { reason, other };
	struct err err = ERR_INIT;
	struct health h;

	ck_assert_msg(!node_storage_health(&node, &h, &err), "%s", err.msg);
	ck_assert_uint_eq(h.n, (size_t) !!reason + !!other);
	for (size_t i = 0; i < h.n; i++)
		ck_assert_str_eq(h.v[i].reason, want[i]);
}

START_TEST(vfs_and_hot_plug_slots_are_added_up)
{
	begin();
	add_vfs(4);
	answers(4, MAX_VOLUMES_COUNTED);
	dpu_switch_add(tree.sysfs, "0x15b3\n", 3);
	answers(7, MAX_VOLUMES_COUNTED);
	logged(2, "I", "n=7 by=\"VFs and hot-plug slots of the DPU\"");
	dpu_switch_plug(tree.sysfs, 0, "0x15b3\n", "0x010802\n", NULL);
	answers(7, MAX_VOLUMES_COUNTED);
	logged(2, "I", "n=7");
	well_but(NULL, NULL);
	end();
}
END_TEST

START_TEST(volumes_of_both_kinds_share_the_slots_and_what_others_plug_in_takes_one)
{
	begin();
	add_vfs(4);
	dpu_switch_add(tree.sysfs, "0x15b3\n", 4);
	dpu_switch_plug(tree.sysfs, 0, "0x15b3\n", "0x010802\n", NULL);
	virtio_function_add(tree.sysfs, "0000:23:00.0", "0x1af4\n", "a");
	virtio_function_add(tree.sysfs, "0000:24:00.0", "0x15b3\n", "b");
	/* The host's own function, in no slot of the DPU: not counted, and not an error. */
	virtio_function_add(tree.sysfs, "0000:00:05.0", "0x1af4\n", "own");
	answers(8, MAX_VOLUMES_COUNTED);
	well_but(NULL, NULL);
	/* While this process runs, a virtual machine gets one, and a network card is plugged in. */
	tree_link(&tree, "/sys/bus/pci/devices/0000:23:00.0/driver", "../../drivers/vfio-pci");
	answers(7, MAX_VOLUMES_COUNTED);
	dpu_switch_plug(tree.sysfs, 3, "0x1af4\n", "0x020000\n", NULL);
	answers(6, MAX_VOLUMES_COUNTED);
	tree_remove(&tree, "/sys/bus/pci/devices/0000:23:00.0/driver");
	tree_link(&tree, "/sys/bus/pci/devices/0000:23:00.0/driver", "../../drivers/virtio-pci");
	answers(7, MAX_VOLUMES_COUNTED);
	logged(4, "I", "4 hot-plug slots below its PCIe switch");
	well_but(NULL, NULL);
	end();
}
END_TEST

static _Atomic bool may_finish;

/* Work of the start that runs beside the first calls: VFs appear one by one. */
static void finish_vfs(void *arg)
{
	(void)arg;
	while (!may_finish)
		usleep(1000);
	add_vfs(4);
}

START_TEST(vfs_that_are_being_made_are_waited_for)
{
	struct max_volumes m;
	struct err err = ERR_INIT;
	int unused = 0;

	begin();
	add_vfs(1);
	ck_assert_int_eq(detached_slot_run(node.preparer, finish_vfs, &unused, sizeof(unused),
	                                   deadline_in_ms(0), &err),
	                 DETACHED_RUNS);
	ck_assert_int_eq(max_volumes_answer(&node, deadline_in_ms(10), &m, &err), -1);
	ck_assert_msg(err.code == ERR_DEADLINE && strstr(err.msg, "VFs"), "%s", err.msg);
	ck_assert(!path_exists(plugin_dir));
	may_finish = true;
	answers(4, MAX_VOLUMES_COUNTED);
	end();
}
END_TEST

static void wait_until_nothing_hangs(void)
{
	ck_assert(node_wait_host(&node, wait_limit()));
	ck_assert_uint_eq(sysfs_hung(0, NULL), 0);
}

/* Returns the last reported number, and keeps it. */
static void tells_the_last_known(int64_t n, const char *at)
{
	struct max_volumes m;
	struct err err = ERR_INIT;
	char *kept AUTO(free) = NULL;

	/* On a loaded machine the counting thread may get there only after the answer. */
	WAIT_UNTIL(!max_volumes_answer(&node, wait_limit(), &m, &err) && strstr(m.where, at));
	ck_assert_int_eq(m.n, n);
	ck_assert(m.source == MAX_VOLUMES_LAST_KNOWN && m.uncounted);
	kept = tree_read(&tree, "/plugin/max-volumes");
	ck_assert_str_eq(kept, "4");
}

START_TEST(while_sysfs_does_not_answer_the_last_count_holds)
{
	static const char *const attrs[] = { "class", "vendor", "device" };
	char *path AUTO(free) = xasprintf(PF "/%s", attrs[_i]);

	begin();
	add_vfs(4);
	answers(4, MAX_VOLUMES_COUNTED);
	wait_ms = 20;
	restart();
	tree_fifo(&tree, path);
	/* The second call starts no second thread. */
	for (int i = 0; i < 2; i++)
		tells_the_last_known(4, path);
	ck_assert_uint_eq(sysfs_hung(0, NULL), 1);
	logged(1, "W", "the functions cannot be counted now");
	tree_answer(&tree, path, "0x0\n");
	wait_until_nothing_hangs();
	wait_ms = WAIT_LIMIT_MS;
	restart();
	add_vfs(4);
	answers(4, MAX_VOLUMES_COUNTED);
	end();
}
END_TEST

START_TEST(while_the_preparing_hangs_the_last_count_holds)
{
	struct err err = ERR_INIT;

	begin();
	add_vfs(4);
	answers(4, MAX_VOLUMES_COUNTED);
	for (int i = 0; i < 4; i++) {
		char *link AUTO(free) = xasprintf(PF "/virtfn%d", i);

		tree_remove(&tree, link);
	}
	wait_ms = 20;
	create_vfs = true;
	restart();
	tree_write(&tree, PF "/sriov_totalvfs", "4\n");
	tree_fifo(&tree, PF "/sriov_numvfs");
	/* Started by the start of the driver, or by this call itself. */
	if (_i)
		ck_assert_int_eq(node_prepare_beside(&node, true, 0, &err), NODE_PREPARES);
	for (int i = 0; i < 2; i++)
		tells_the_last_known(4, "sriov_numvfs");
	ck_assert_uint_eq(sysfs_hung(0, NULL), 1);
	tree_answer(&tree, PF "/sriov_numvfs", "4\n");
	wait_until_nothing_hangs();
	wait_ms = WAIT_LIMIT_MS;
	create_vfs = false;
	end();
}
END_TEST

START_TEST(a_host_with_hot_plug_only_has_its_slots)
{
	begin();
	dpu_switch_add(tree.sysfs, "0x15b3\n", 31);
	answers(31, MAX_VOLUMES_COUNTED);
	well_but(NULL, NULL);
	end();
}
END_TEST

START_TEST(ports_that_nothing_can_be_plugged_into_are_told)
{
	struct err err = ERR_INIT;
	struct health h;

	begin();
	dpu_switch_add(tree.sysfs, "0x15b3\n", 3);
	tree_remove(&tree, "/sys/bus/pci/slots/4-1");
	tree_write(&tree, "/sys/bus/pci/devices/0000:21:02.0/secondary_bus_number", "0\n");
	answers(2, MAX_VOLUMES_COUNTED);
	logged(1, "I", "no bus number for its ports 0000:21:02.0");
	well_but("PortsWithoutBus", NULL);
	tree_write(&tree, "/sys/bus/pci/devices/0000:22:00.0/class", "0x020000\n");
	tree_write(&tree, "/sys/bus/pci/devices/0000:23:00.0/class", "0x020000\n");
	/* No function is left for volumes: both counts are shown. */
	ck_assert_int_eq(node_storage_health(&node, &h, &err), 0);
	ck_assert_str_eq(h.v[0].reason, "NoFunctions");
	ck_assert_msg(strstr(h.v[0].message, "bus/pci/devices: none; 2 hot-plug slots") &&
	                      strstr(h.v[0].message, "0 of them for volumes"),
	              "%s", h.v[0].message);
	end();
}
END_TEST

START_TEST(while_the_dpu_is_away_the_last_count_holds)
{
	begin();
	dpu_switch_add(tree.sysfs, "0x15b3\n", 5);
	answers(5, MAX_VOLUMES_COUNTED);
	dpu_switch_remove(tree.sysfs, 5);
	answers(5, MAX_VOLUMES_LAST_KNOWN);
	logged(2, "W", "last count on this node");
	restart();
	answers(5, MAX_VOLUMES_LAST_KNOWN);
	answers(5, MAX_VOLUMES_LAST_KNOWN);
	logged(1, "W", "last count on this node");
	well_but("NoFunctions", "VolumeLimitLastKnown");
	/* The switch is back, with another number, which applies after that. */
	dpu_switch_add(tree.sysfs, "0x15b3\n", 2);
	answers(2, MAX_VOLUMES_COUNTED);
	dpu_switch_remove(tree.sysfs, 2);
	restart();
	answers(2, MAX_VOLUMES_LAST_KNOWN);
	end();
}
END_TEST

START_TEST(a_node_that_has_never_seen_a_dpu_guesses_and_says_so)
{
	begin();
	answers(30, MAX_VOLUMES_GUESSED);
	logged(1, "W", "estimate");
	well_but("NoFunctions", "VolumeLimitGuessed");
	/* A guess is not stored. */
	ck_assert(!path_exists(plugin_dir));
	end();
}
END_TEST

START_TEST(a_host_without_sysfs_registers_too)
{
	begin();
	node.o.world.sysfs = "/nonexistent";
	answers(30, MAX_VOLUMES_GUESSED);
	well_but("NoFunctions", "VolumeLimitGuessed");
	end();
}
END_TEST

START_TEST(what_the_operator_says_holds)
{
	begin();
	node.o.max_volumes = 7;
	answers(7, MAX_VOLUMES_SET);
	logged(1, "I", "n=7 by=--max-volumes-per-node");
	well_but("NoFunctions", NULL);
	ck_assert(!path_exists(plugin_dir));
	end();
}
END_TEST

START_TEST(a_file_that_holds_no_number_counts_as_absent)
{
	static const char *const texts[] = { "", "x\n", "0\n", "-4\n", "4294967296\n", "5 6\n" };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		begin();
		tree_write(&tree, "/plugin/max-volumes", texts[i]);
		answers(30, MAX_VOLUMES_GUESSED);
		end();
	}
}
END_TEST

START_TEST(the_file_is_written_when_the_number_changes_and_only_then)
{
	char *text AUTO(free) = NULL;
	struct stat first, second;
	char path[160];

	begin();
	snprintf(path, sizeof(path), "%s/max-volumes", plugin_dir);
	add_vfs(2);
	answers(2, MAX_VOLUMES_COUNTED);
	ck_assert_int_eq(stat(path, &first), 0);
	answers(2, MAX_VOLUMES_COUNTED);
	ck_assert_int_eq(stat(path, &second), 0);
	ck_assert(first.st_ino == second.st_ino && first.st_mtim.tv_nsec == second.st_mtim.tv_nsec);
	dpu_switch_add(tree.sysfs, "0x15b3\n", 1);
	answers(3, MAX_VOLUMES_COUNTED);
	text = tree_read(&tree, "/plugin/max-volumes");
	ck_assert_str_eq(text, "3");
	end();
}
END_TEST

START_TEST(a_file_that_cannot_be_written_costs_a_warning)
{
	begin();
	add_vfs(2);
	tree_write(&tree, "/plugin", "a file, not a directory");
	answers(2, MAX_VOLUMES_COUNTED);
	ck_assert_uint_eq(lines.n, 2);
	ck_assert_msg(strstr(lines.v[0], "is not saved"), "%s", lines.v[0]);
	end();
}
END_TEST

SUITE("max_volumes", vfs_and_hot_plug_slots_are_added_up,
      volumes_of_both_kinds_share_the_slots_and_what_others_plug_in_takes_one,
      vfs_that_are_being_made_are_waited_for,
      LOOP(while_sysfs_does_not_answer_the_last_count_holds, 3),
      LOOP(while_the_preparing_hangs_the_last_count_holds, 2),
      a_host_with_hot_plug_only_has_its_slots, ports_that_nothing_can_be_plugged_into_are_told,
      while_the_dpu_is_away_the_last_count_holds,
      a_node_that_has_never_seen_a_dpu_guesses_and_says_so, a_host_without_sysfs_registers_too,
      what_the_operator_says_holds, a_file_that_holds_no_number_counts_as_absent,
      the_file_is_written_when_the_number_changes_and_only_then,
      a_file_that_cannot_be_written_costs_a_warning);
