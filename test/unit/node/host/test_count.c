/* SPDX-License-Identifier: Apache-2.0 */
/* What a node tells of its functions and of what is staged; other mounts do not count. */
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

START_TEST(a_node_is_ready_when_it_knows_how_many_volumes_it_takes)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	SKIP_UNLESS_ROOT();
	node_world_init(&w);
	ck_assert(!node_has_functions(&w.node, &why));
	ck_assert_msg(str_has_prefix(why.ptr, "the DPU shows this host none, and never has: "),
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
      mounts_of_others_and_outside_of_kubelets_directory_do_not_count,
      functions_are_counted_by_state_and_keep_their_count_when_they_cannot_be_read,
      a_node_is_ready_when_it_knows_how_many_volumes_it_takes);
