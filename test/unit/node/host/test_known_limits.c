/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the host's firmware, each with its next step. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "node/host/known_limits.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/tree.h"

#define PF "/sys/bus/pci/devices/0000:26:00.0"
#define PORT "/sys/bus/pci/devices/0000:21:01.0"

static char *vendor_list[] = { (char *)"15b3", NULL };
static const struct strs vendors = { vendor_list, 1 };
static struct tree tree;

static void add_pf(const char *possible, unsigned present)
{
	tree_write(&tree, PF "/vendor", "0x15b3\n");
	tree_write(&tree, PF "/device", "0x6001\n");
	tree_write(&tree, PF "/class", "0x010802\n");
	tree_write(&tree, PF "/sriov_totalvfs", possible);
	for (unsigned i = 0; i < present; i++) {
		char *link AUTO(free) = xasprintf(PF "/virtfn%u", i);

		tree_link(&tree, link, "../0000:26:00.1");
	}
}

static void nothing(void)
{
}
static void port_without_bus(void)
{
	tree_write(&tree, PORT "/secondary_bus_number", "0\n");
}
static void few_vfs(void)
{
	add_pf("127\n", 0);
}
static void no_vfs(void)
{
	add_pf("250\n", 0);
}
static void one_bus_of_vfs(void)
{
	add_pf("250\n", 127);
}
static void all_vfs(void)
{
	add_pf("250\n", 250);
}

/* says: the only limit with its next step; NULL: none. */
static const struct {
	const char *what, *arguments;
	void (*edit)(void);
	bool vfs;
	const char *says;
} rows[] = {
	{ "a host without limits", "quiet\n", nothing, true, NULL },
	{ "a port without a bus number", "quiet\n", port_without_bus, true,
	  "1 hot-plug ports of the DPU have no bus number, so nothing can be plugged there "
	  "(0000:21:01.0)|add pci=assign-busses to the kernel's arguments" },
	{ "the same, although the kernel assigns them", "pci=realloc,assign-busses\n",
	  port_without_bus, true,
	  "1 hot-plug ports of the DPU have no bus number, so nothing can be plugged there "
	  "(0000:21:01.0)|reserve more bus numbers for the DPU's PCIe switch in the host's "
	  "firmware" },
	{ "VFs that one bus can have", "quiet\n", few_vfs, true, NULL },
	{ "VFs of which there are none", "quiet\n", no_vfs, true,
	  "PF 0000:26:00.0 of the DPU has 0 of 250 VFs, and all of them need more bus numbers "
	  "than one bus has|if the kernel's log has \"unknown header type 7f, ignoring "
	  "device\", add pci=assign-busses to the kernel's arguments" },
	{ "VFs of one bus", "quiet\n", one_bus_of_vfs, true,
	  "PF 0000:26:00.0 of the DPU has 127 of 250 VFs, and all of them need more bus "
	  "numbers than one bus has|if the kernel's log has \"unknown header type 7f, ignoring "
	  "device\", add pci=assign-busses to the kernel's arguments" },
	{ "all VFs", "quiet\n", all_vfs, true, NULL },
	{ "VFs that the driver does not create", "quiet\n", no_vfs, false, NULL },
	{ "VFs where the kernel assigns bus numbers", "pci=assign-busses\n", no_vfs, true, NULL },
	{ "unknown arguments", NULL, no_vfs, true, NULL },
};

static void note(void *arg, const char *what, const char *next)
{
	struct str *s = arg;

	str_addf(s, "%s%s|%s", s->len ? "\n" : "", what, next);
}

START_TEST(each_limit_of_the_host_is_told_with_its_next_step)
{
	struct str said AUTO(str_clear) = STR_INIT(2000);
	char *proc AUTO(free) = NULL;
	struct device_world w;

	tree_unpack(&tree, NULL);
	dpu_switch_add(tree.sysfs, "0x15b3\n", 2);
	proc = xasprintf("%s/proc", tree.root);
	w = (struct device_world) { .sysfs = tree.sysfs,
		                    .dev = tree.dev,
		                    .vendors = &vendors,
		                    .snap_device_id = "6001",
		                    .proc = proc };
	rows[_i].edit();
	if (rows[_i].arguments)
		tree_write(&tree, "/proc/cmdline", rows[_i].arguments);
	known_limits_each(&w, rows[_i].vfs, note, &said);
	ck_assert_msg(str_eq(said.ptr, rows[_i].says ? rows[_i].says : ""), "%s: %s", rows[_i].what,
	              said.ptr);
	tree_clear(&tree);
}
END_TEST

SUITE("known_limits", LOOP(each_limit_of_the_host_is_told_with_its_next_step, ARRAY_LEN(rows)));
