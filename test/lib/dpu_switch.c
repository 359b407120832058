/* SPDX-License-Identifier: Apache-2.0 */
/* See dpu_switch.h: attributes of bridges, slots and functions as files. */
#include "test/lib/dpu_switch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

static void put(const char *sysfs, const char *dir, const char *name, const char *text)
{
	char *at AUTO(free) = xasprintf("%s/bus/pci/%s", sysfs, dir);
	char *path AUTO(free) = xasprintf("%s/%s", at, name);
	struct err err = ERR_INIT;

	ck_assert_msg(!dir_make(at, 0755, &err), "%s", err.msg);
	ck_assert_msg(!file_replace(path, text, strlen(text), 0644, &err), "%s", err.msg);
}

static void add_bridge(const char *sysfs, const char *pci, const char *vendor, unsigned below)
{
	char *dir AUTO(free) = xasprintf("devices/%s", pci);
	char bus[16];

	snprintf(bus, sizeof(bus), "%u\n", below);
	put(sysfs, dir, "vendor", vendor);
	put(sysfs, dir, "device", "0x197b\n");
	put(sysfs, dir, "class", "0x060400\n");
	put(sysfs, dir, "secondary_bus_number", bus);
}

void dpu_switch_add(const char *sysfs, const char *vendor, unsigned ports)
{
	put(sysfs, "slots/1", "address", "0000:20:00\n"); /* the host's, with the DPU in it */
	add_bridge(sysfs, "0000:00:01.0", "0x8086\n", 0x20);
	add_bridge(sysfs, "0000:20:00.0", vendor, 0x21);
	for (unsigned i = 0; i < ports; i++) {
		char *port AUTO(free) = xasprintf("0000:21:%02x.0", i);
		char *slot AUTO(free) = xasprintf("slots/%u-1", i + 2);
		char *address AUTO(free) = xasprintf("0000:%02x:00\n", 0x22 + i);

		add_bridge(sysfs, port, vendor, 0x22 + i);
		put(sysfs, slot, "address", address);
	}
}

void dpu_switch_plug(const char *sysfs, unsigned port, const char *vendor, const char *class_code,
                     const char *total_vfs)
{
	char *dir AUTO(free) = xasprintf("devices/0000:%02x:00.0", 0x22 + port);

	put(sysfs, dir, "vendor", vendor);
	put(sysfs, dir, "device", "0x6001\n");
	put(sysfs, dir, "class", class_code);
	if (total_vfs) {
		put(sysfs, dir, "sriov_totalvfs", total_vfs);
		put(sysfs, dir, "sriov_numvfs", "0\n");
	}
}

static void remove_dir(const char *sysfs, const char *name)
{
	char *command AUTO(free) = xasprintf("rm -rf '%s/bus/pci/%s'", sysfs, name);

	ck_assert_int_eq(system(command), 0);
}

void dpu_switch_remove(const char *sysfs, unsigned ports)
{
	remove_dir(sysfs, "devices/0000:20:00.0");
	for (unsigned i = 0; i < ports; i++) {
		char *port AUTO(free) = xasprintf("devices/0000:21:%02x.0", i);
		char *function AUTO(free) = xasprintf("devices/0000:%02x:00.0", 0x22 + i);
		char *slot AUTO(free) = xasprintf("slots/%u-1", i + 2);

		remove_dir(sysfs, port);
		remove_dir(sysfs, function);
		remove_dir(sysfs, slot);
	}
}
