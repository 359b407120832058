/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static PF is 26:00.0, and its VFs follow it in ARI numbering; hot-plug slot n is on bus 30 +
 * n (hexadecimal).
 */
#include "test/sim/fabric/function.h"

#include <ctype.h>
#include <stdio.h>

#include "common/str.h"

void function_bdf(enum function_kind kind, unsigned index, char buf[16])
{
	unsigned number = kind == FUNCTION_VF ? (index + 1) & 0xff : 0;

	if (kind == FUNCTION_HOTPLUG)
		snprintf(buf, 16, "0000:%02x:00.0", (FUNCTION_HOTPLUG_BUS + index) & 0xff);
	else
		snprintf(buf, 16, "0000:%02x:%02x.%x", FUNCTION_PF_BUS, number >> 3, number & 7);
}

void function_vuid(const char *node, enum function_kind kind, unsigned index, char buf[32])
{
	char hash[33];

	fnv128_hex(node, "", hash);
	for (char *c = hash; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	snprintf(buf, 32, "MT2328XZ%.4sNVMES%uD%uF0", hash + 28, kind == FUNCTION_HOTPLUG,
	         kind == FUNCTION_HOTPLUG ? index : 0);
}
