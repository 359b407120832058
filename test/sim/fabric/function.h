/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCI functions of a node by kind and index: addresses, which are the same on every node, and
 * VUIDs.
 */
#pragma once

enum function_kind {
	FUNCTION_VF,      /* index: virtfn number */
	FUNCTION_PF,      /* the static PF itself; index 0 */
	FUNCTION_HOTPLUG, /* index: slot */
};

#define FUNCTION_PF_BUS 0x26
#define FUNCTION_HOTPLUG_BUS 0x30

/* The PCI address: "0000:26:00.1". */
void function_bdf(enum function_kind kind, unsigned index, char buf[16]);
/* The VUID, which is VU in the VPD: different on each node. A VF has that of its PF. */
void function_vuid(const char *node, enum function_kind kind, unsigned index, char buf[32]);
