/* SPDX-License-Identifier: Apache-2.0 */
/* VFs of recorded hosts and slots of a synthetic one, by their state. */
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device_states.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"
#include "test/lib/virtio_function.h"

#define DEVICES "/sys/bus/pci/devices/"

static char *vendor_list[] = { (char *)"15b3", (char *)"1b36", NULL };
static const struct strs vendors = { vendor_list, 2 };

struct host {
	struct tree tree;
	struct device_world world;
	struct device_states states;
	struct err err;
};

static void host_clear_p(struct host *h)
{
	tree_clear(&h->tree);
}

static void host_init(struct host *h, const char *manifest, const char *device_id)
{
	*h = (struct host) { .err = ERR_INIT };
	tree_unpack(&h->tree, manifest);
	h->world = (struct device_world) { .sysfs = h->tree.sysfs,
		                           .dev = h->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id = device_id };
}

static void look(struct host *h)
{
	ck_assert_msg(!device_count_states(&h->world, &h->states, &h->err), "%s", h->err.msg);
}

static void expect(const char *what, const unsigned n[DEVICE_STATES],
                   const unsigned want[DEVICE_STATES])
{
	for (size_t i = 0; i < DEVICE_STATES; i++)
		ck_assert_msg(n[i] == want[i], "%s: %u of state %zu, not %u", what, n[i], i,
		              want[i]);
}

START_TEST(vfs_are_counted_by_what_their_driver_makes_of_them)
{
	static const struct {
		const char *what, *manifest;
		unsigned want[DEVICE_STATES];
	} rows[] = {
		{ "a PF without VFs", "s1-pf-only", { 0 } },
		{ "no driver", "s2-vfs-unbound", { [DEVICE_STATE_UNBOUND] = 4 } },
		{ "three bound, no namespaces",
		  "s3a-vfs-bound-no-ns",
		  { [DEVICE_STATE_UNBOUND] = 1, [DEVICE_STATE_IDLE] = 3 } },
		{ "two PFs",
		  "s5-two-pfs-multipath",
		  { [DEVICE_STATE_UNBOUND] = 1, [DEVICE_STATE_IN_USE] = 4 } },
		{ "20", "s7-20-vfs", { [DEVICE_STATE_IN_USE] = 20 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct host h AUTO(host_clear);

		host_init(&h, rows[i].manifest, "0010");
		look(&h);
		expect(rows[i].what, h.states.vfs, rows[i].want);
		expect(rows[i].what, h.states.slots, (const unsigned[DEVICE_STATES]) { 0 });
	}
}
END_TEST

START_TEST(a_vf_that_another_driver_has_or_whose_controller_is_dead_shows)
{
	struct host h AUTO(host_clear);

	host_init(&h, "s3a-vfs-bound-no-ns", "0010");
	tree_link(&h.tree, DEVICES "0000:01:00.1/driver", "../../drivers/vfio-pci");
	tree_link(&h.tree, DEVICES "0000:01:00.2/driver", "../../drivers/pci-stub");
	tree_remove(&h.tree, DEVICES "0000:01:00.3/nvme");
	look(&h);
	expect("four VFs", h.states.vfs,
	       (const unsigned[DEVICE_STATES]) { [DEVICE_STATE_OTHER_DRIVER] = 1,
	                                         [DEVICE_STATE_UNBOUND] = 2,
	                                         [DEVICE_STATE_FAILED] = 1 });
}
END_TEST

START_TEST(a_slot_is_empty_or_has_the_state_of_what_is_in_it)
{
	struct host h AUTO(host_clear);

	host_init(&h, NULL, "6001");
	tree_mkdir(&h.tree, DEVICES);
	look(&h);
	expect("no DPU", h.states.slots, (const unsigned[DEVICE_STATES]) { 0 });
	dpu_switch_add(h.tree.sysfs, "0x15b3\n", 6);
	dpu_switch_plug(h.tree.sysfs, 0, "0x15b3\n", "0x010802\n", NULL);
	dpu_switch_plug(h.tree.sysfs, 1, "0x15b3\n", "0x010802\n", "4\n");
	dpu_switch_plug(h.tree.sysfs, 2, "0x15b3\n", "0x020000\n", NULL);
	virtio_function_add(h.tree.sysfs, "0000:25:00.0", "0x1af4\n", "a");
	tree_link(&h.tree, DEVICES "0000:25:00.0/driver", "../../drivers/vfio-pci");
	dpu_switch_plug(h.tree.sysfs, 4, "0x15b3\n", "0x010802\n", NULL);
	tree_link(&h.tree, DEVICES "0000:26:00.0/driver", "../../drivers/nvme");
	tree_write(&h.tree, DEVICES "0000:26:00.0/nvme/nvme0/state", "live\n");
	look(&h);
	expect("six slots", h.states.slots,
	       (const unsigned[DEVICE_STATES]) { [DEVICE_STATE_EMPTY] = 1,
	                                         [DEVICE_STATE_UNBOUND] = 1,
	                                         [DEVICE_STATE_IDLE] = 1,
	                                         [DEVICE_STATE_OTHER_DRIVER] = 1,
	                                         [DEVICE_STATE_OTHER_FUNCTION] = 2 });
	tree_write(&h.tree, DEVICES "0000:26:00.0/nvme/nvme0/state", "dead\n");
	look(&h);
	ck_assert_uint_eq(h.states.slots[DEVICE_STATE_FAILED], 1);
	ck_assert_uint_eq(h.states.slots[DEVICE_STATE_IDLE], 0);
}
END_TEST

START_TEST(without_a_list_of_functions_nothing_is_counted)
{
	struct host h AUTO(host_clear);

	host_init(&h, NULL, "6001");
	tree_link(&h.tree, "/sys/bus/pci/devices", "devices");
	ck_assert_int_eq(device_count_states(&h.world, &h.states, &h.err), -1);
	ck_assert_msg(str_has_prefix(h.err.msg, "count the functions for volumes by their state: "),
	              "%s", h.err.msg);
}
END_TEST

SUITE("device_states", vfs_are_counted_by_what_their_driver_makes_of_them,
      a_vf_that_another_driver_has_or_whose_controller_is_dead_shows,
      a_slot_is_empty_or_has_the_state_of_what_is_in_it,
      without_a_list_of_functions_nothing_is_counted);
