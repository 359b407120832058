/* SPDX-License-Identifier: Apache-2.0 */
/* The UUID is a hash of the volume id, in the form of RFC 9562, version 8. */
#include "volume/luks_name.h"

#include <stdio.h>

#include "common/str.h"
#include "volume/context_keys.h"

void luks_name(const char *volume_id, struct luks_name *ret)
{
	char hex[33];

	fnv128_hex(DRIVER_PREFIX, volume_id, hex);
	snprintf(ret->uuid, sizeof(ret->uuid), "%.8s-%.4s-8%.3s-8%.3s-%.12s", hex, hex + 8,
	         hex + 13, hex + 17, hex + 20);
	snprintf(ret->label, sizeof(ret->label), "%.47s", volume_id);
	snprintf(ret->mapping, sizeof(ret->mapping), LUKS_MAPPING_PREFIX "%s", ret->uuid);
}
