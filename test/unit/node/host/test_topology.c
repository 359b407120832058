/* SPDX-License-Identifier: Apache-2.0 */
/* A node's topology in its RPC replies, as its DPU appears and disappears. */
#include "node/host/topology.h"
#include "node/service.h"

#include "csi/csi.pb-c.h"

#include <stdio.h>
#include <string.h>

#include "node/node_csi.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"
#include "test/lib/wait.h"

#define KEY "topology.csi.snap.nvidia.com/dpu"
#define PF "/sys/bus/pci/devices/0000:01:00.0"

static char *vendor_list[] = { (char *)"15b3", NULL };
static const struct strs vendors = { vendor_list, 1 };
static struct tree tree;
static struct node node;
static char plugin_dir[128];

static void start(const char *key, int64_t max_volumes)
{
	node_init(&node, &(struct node_options) { .id = "n1",
	                                          .world = { .sysfs = tree.sysfs,
	                                                     .dev = tree.dev,
	                                                     .vendors = &vendors,
	                                                     .snap_device_id = "6001" },
	                                          .proc_root = "/proc",
	                                          .topology_key = key,
	                                          .max_volumes = max_volumes,
	                                          .tuning.host_wait_ms = WAIT_LIMIT_MS,
	                                          .plugin_dir = plugin_dir });
}

static void begin(const char *key, int64_t max_volumes)
{
	tree_unpack(&tree, NULL);
	tree_mkdir(&tree, "/sys/bus/pci/devices");
	snprintf(plugin_dir, sizeof(plugin_dir), "%s/plugin", tree.root);
	start(key, max_volumes);
}

static void end(void)
{
	node_clear(&node);
	tree_clear(&tree);
}

static void restart(const char *key, int64_t max_volumes)
{
	node_clear(&node);
	start(key, max_volumes);
}

/* From the reply of NodeGetInfo. */
static bool says_so(void)
{
	static const char path[] = "/csi.v1.Node/NodeGetInfo";
	struct rpc_service service = node_service(&node, NULL);
	const struct rpc_service *found;
	const struct rpc_method *method = rpc_find(&service, 1, path, strlen(path), &found);
	const Csi__V1__NodeGetInfoRequest request = CSI__V1__NODE_GET_INFO_REQUEST__INIT;
	const Csi__V1__NodeGetInfoResponse *info;
	ProtobufCMessage *reply = NULL;
	struct err err = ERR_INIT;
	struct rpc_call call;
	bool says;

	rpc_call_init(&call, path);
	call.deadline = wait_limit();
	ck_assert_msg(method->handler(service.self, &call, &request, &reply, &err) == 0, "%s",
	              err.msg);
	info = (const void *)reply;
	says = info->accessible_topology != NULL;
	if (says) {
		ck_assert_uint_eq(info->accessible_topology->n_segments, 1);
		ck_assert_str_eq(info->accessible_topology->segments[0]->key, KEY);
		ck_assert_str_eq(info->accessible_topology->segments[0]->value, "true");
	}
	rpc_call_clear(&call);
	return says;
}

static void add_slots(void)
{
	dpu_switch_add(tree.sysfs, "0x15b3\n", 2);
}

START_TEST(without_the_flag_a_node_says_nothing)
{
	begin(NULL, 0);
	add_slots();
	ck_assert(!says_so());
	ck_assert(!node_topology_appeared(&node));
	end();
}
END_TEST

START_TEST(a_node_with_functions_says_so_also_when_its_dpu_is_away_later)
{
	/* With a fixed number of volumes, functions are counted only for the topology. */
	for (int64_t set = 0; set <= 7; set += 7) {
		begin(KEY, set);
		add_slots();
		ck_assert(says_so());
		ck_assert(!node_topology_appeared(&node));
		restart(KEY, set);
		node.o.world.sysfs = "/nonexistent";
		ck_assert(says_so());
		end();
	}
}
END_TEST

/* kubelet labels the Node only at a registration. */
START_TEST(functions_that_come_later_are_told_by_another_registration)
{
	begin(KEY, 0);
	ck_assert(!says_so());
	ck_assert(!node_topology_appeared(&node));
	add_slots();
	ck_assert(!says_so());
	ck_assert(node_topology_appeared(&node));
	ck_assert(!node_topology_appeared(&node));
	ck_assert(says_so());
	end();
}
END_TEST

SUITE("topology", without_the_flag_a_node_says_nothing,
      a_node_with_functions_says_so_also_when_its_dpu_is_away_later,
      functions_that_come_later_are_told_by_another_registration);
