/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCIe switch of a DPU in a simulated sysfs tree, as a host with hot-plug ports shows it: root
 * port 0000:00:01.0 of the host, upstream port 0000:20:00.0, downstream ports 0000:21:00.0 and up,
 * below each of them a bus (0000:22 and up) with a slot. Any failure fails the running test.
 */
#pragma once

/* Vendor of the switch: "0x15b3". */
void dpu_switch_add(const char *sysfs, const char *vendor, unsigned ports);
/*
 * A function in the slot of that port (0000:22:00.0 for port 0); total_vfs NULL: it has no SR-IOV.
 */
void dpu_switch_plug(const char *sysfs, unsigned port, const char *vendor, const char *class_code,
                     const char *total_vfs);
/* Removes the switch and all functions in its slots, as when the DPU is reset. */
void dpu_switch_remove(const char *sysfs, unsigned ports);
