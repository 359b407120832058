/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCI functions that a node has, by kind and number: addresses and VPD names, the same on every
 * node.
 */
#pragma once

enum function_kind {
	FUNCTION_VF,      /* index: virtfn number */
	FUNCTION_PF,      /* the static PF itself; index 0 */
	FUNCTION_HOTPLUG, /* index: slot */
};

#define FUNCTION_PF_BUS 0x26
#define FUNCTION_HOTPLUG_BUS 0x30

/* "0000:26:00.1" */
void function_bdf(enum function_kind kind, unsigned index, char buf[16]);
/* The VPD's VU; a VF has its PF's. Differs from node to node. */
void function_vuid(const char *node, enum function_kind kind, unsigned index, char buf[32]);
