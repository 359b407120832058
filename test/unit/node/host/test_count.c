/* SPDX-License-Identifier: Apache-2.0 */
/* A node's metrics of its functions and staged volumes; other mounts do not count. */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/host/count.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

static struct node_world w;

static int64_t functions(const char *kind, const char *state)
{
	return metric_value(METRIC_FUNCTIONS, LABELS(kind, state));
}

static int64_t staged(void)
{
	return metric_value(METRIC_VOLUMES_STAGED, NULL);
}

static struct nvme_disk *add(unsigned nsid)
{
	return nvme_world_add(&w.nvme, nsid, "", 320 * MIB);
}

static void stage(struct nvme_disk *disk, const char *fs_type)
{
	struct stage_request s = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	node_world_stage(&w, &s);
}

START_TEST(a_volume_counts_once_however_often_it_is_mounted)
{
	static const char *const types[] = { "ext4", "xfs", "btrfs", NULL };
	struct publish_request p;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	node_count(&w.node);
	ck_assert_int_eq(staged(), 0);
	stage(add(1), types[_i]);
	node_count(&w.node);
	ck_assert_int_eq(staged(), 1);
	p = publish_request(&w, w.target, types[_i], MODE_SINGLE_NODE_WRITER);
	node_world_publish(&w, &p);
	node_count(&w.node);
	ck_assert_int_eq(staged(), 1);
	node_world_clear(&w);
}
END_TEST

static void count_calls(void *arg, const struct mountpoint *p, const struct device *dev)
{
	(void)p;
	ck_assert_str_ne(dev->name, "");
	(*(unsigned *)arg)++;
}

/* The same directory in other spellings, and a staging path below --volume-dir. */
START_TEST(the_spelling_of_a_directory_does_not_matter)
{
	static const char *const rows[] = { "/kubelet/", "//kubelet", "/link", "/./kubelet",
		                            "/link/" };
	struct strs dirs AUTO(strs_clear) = STRS_INIT;
	struct node_options was;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	was = w.node.o;
	stage(add(1), "ext4");
	run_tool("ln -s kubelet %s/link", w.nvme.root);
	for (size_t i = 0; i <= ARRAY_LEN(rows); i++) {
		bool last = i == ARRAY_LEN(rows);
		char *dir AUTO(free) = xasprintf("%s%s", w.nvme.root, last ? "/none" : rows[i]);

		w.node.o.kubelet_dir = dir;
		if (last) {
			strs_add(&dirs, w.kubelet_dir);
			w.node.o.volume_dirs = &dirs;
		}
		ck_assert_msg(node_may_have_staged(&w.node), "%s", dir);
		metric_set(METRIC_VOLUMES_STAGED, 0, NULL);
		node_count(&w.node);
		ck_assert_msg(staged() == 1, "%s", dir);
	}
	w.node.o = was;
	node_world_clear(&w);
}
END_TEST

START_TEST(mounts_of_others_and_outside_of_kubelets_directory_do_not_count)
{
	unsigned calls = 0;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	stage(add(1), "ext4");
	/* An emptyDir; a disk of the host below kubelet's directory; our disk elsewhere. */
	run_tool("mkdir -p %s/pods/p2/tmp %s/pods/p2/local %s/elsewhere", w.kubelet_dir,
	         w.kubelet_dir, w.nvme.root);
	run_tool("mount -t tmpfs none %s/pods/p2/tmp", w.kubelet_dir);
	run_tool(
		"truncate -s 64M %s/local && mkfs.ext4 -q %s/local && mount -o loop %s/local %s/pods/p2/local",
		w.nvme.root, w.nvme.root, w.nvme.root, w.kubelet_dir);
	run_tool("mount --bind %s %s/elsewhere", w.staging, w.nvme.root);
	node_count(&w.node);
	ck_assert_int_eq(staged(), 1);
	node_each_staged(&w.node, count_calls, &calls);
	ck_assert_uint_eq(calls, 1);
	run_tool("umount %s/elsewhere %s/pods/p2/local %s/pods/p2/tmp", w.nvme.root, w.kubelet_dir,
	         w.kubelet_dir);
	node_world_clear(&w);
}
END_TEST

START_TEST(functions_are_counted_by_state_and_keep_their_count_when_they_cannot_be_read)
{
	struct nvme_disk *disks[2];

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disks[0] = add(1);
	disks[1] = add(2);
	node_count(&w.node);
	ck_assert_int_eq(functions("vf", "in use"), 2);
	ck_assert_int_eq(functions("vf", "unbound"), 0);
	ck_assert_int_eq(functions("slot", "empty"), 0);
	ck_assert_int_eq(metric_value(METRIC_VOLUMES_MAX, LABELS("counted")), 2);
	nvme_world_hide(&w.nvme, disks[0]);
	nvme_world_unbind(&w.nvme, disks[1]);
	node_count(&w.node);
	ck_assert_int_eq(functions("vf", "idle"), 1);
	ck_assert_int_eq(functions("vf", "unbound"), 1);
	ck_assert_int_eq(functions("vf", "in use"), 0);
	run_tool("mv %s/bus/pci/devices %s/away && ln -s devices %s/bus/pci/devices", w.nvme.sysfs,
	         w.nvme.root, w.nvme.sysfs);
	node_count(&w.node);
	ck_assert_int_eq(functions("vf", "unbound"), 1);
	run_tool("rm %s/bus/pci/devices && mv %s/away %s/bus/pci/devices", w.nvme.sysfs,
	         w.nvme.root, w.nvme.sysfs);
	node_world_clear(&w);
}
END_TEST

static int64_t resets(void)
{
	return metric_value(METRIC_DPU_RESETS, NULL);
}

START_TEST(each_time_that_all_functions_disappear_is_a_reset_of_the_dpu)
{
	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	node_count(&w.node);
	ck_assert_int_eq(resets(), 0); /* a node without functions yet */
	add(1);
	add(2);
	node_count(&w.node);
	for (int i = 1; i <= 2; i++) {
		run_tool("mkdir %s/gone && mv %s/bus/pci/devices/* %s/gone", w.nvme.root,
		         w.nvme.sysfs, w.nvme.root);
		node_count(&w.node);
		ck_assert_int_eq(functions("vf", "in use"), 0);
		ck_assert_int_eq(resets(), i);
		node_count(&w.node); /* they are still missing */
		ck_assert_int_eq(resets(), i);
		run_tool("mv %s/gone/* %s/bus/pci/devices && rmdir %s/gone", w.nvme.root,
		         w.nvme.sysfs, w.nvme.root);
		node_count(&w.node);
		ck_assert_int_eq(functions("vf", "in use"), 2);
		ck_assert_int_eq(resets(), i);
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(what_is_no_reset_of_the_dpu_is_not_counted)
{
	struct nvme_disk *disk;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = add(1);
	add(2);
	node_count(&w.node);
	/* A function that loses its driver; sysfs that cannot be read. */
	nvme_world_unbind(&w.nvme, disk);
	node_count(&w.node);
	run_tool("mv %s/bus/pci/devices %s/away && ln -s devices %s/bus/pci/devices", w.nvme.sysfs,
	         w.nvme.root, w.nvme.sysfs);
	node_count(&w.node);
	run_tool("rm %s/bus/pci/devices && mv %s/away %s/bus/pci/devices", w.nvme.sysfs,
	         w.nvme.root, w.nvme.sysfs);
	node_count(&w.node);
	ck_assert_int_eq(functions("vf", "unbound"), 1);
	ck_assert_int_eq(resets(), 0);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_node_is_ready_when_it_knows_how_many_volumes_it_takes)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	SKIP_UNLESS_ROOT();
	node_world_init(&w);
	ck_assert(!node_has_functions(&w.node, &why));
	ck_assert_msg(str_has_prefix(why.ptr, "the DPU offers this host none, and never has: "),
	              "%s", why.ptr);
	w.node.o.max_volumes = 5;
	ck_assert(node_has_functions(&w.node, &why));
	node_count(&w.node);
	ck_assert_int_eq(metric_value(METRIC_VOLUMES_MAX, LABELS("set")), 5);
	ck_assert_int_eq(metric_value(METRIC_VOLUMES_MAX, LABELS("guessed")), 0);
	node_world_clear(&w);
}
END_TEST

SUITE("count", LOOP(a_volume_counts_once_however_often_it_is_mounted, 4),
      the_spelling_of_a_directory_does_not_matter,
      mounts_of_others_and_outside_of_kubelets_directory_do_not_count,
      functions_are_counted_by_state_and_keep_their_count_when_they_cannot_be_read,
      each_time_that_all_functions_disappear_is_a_reset_of_the_dpu,
      what_is_no_reset_of_the_dpu_is_not_counted,
      a_node_is_ready_when_it_knows_how_many_volumes_it_takes);
