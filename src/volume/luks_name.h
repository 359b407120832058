/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of an encrypted volume: the fields of its LUKS2 header, and the name of its mapping.
 * Both are derived from the volume id, so that the header of another volume is detected before a
 * passphrase is tried. Pure functions.
 */
#pragma once

#include <stdbool.h>

#define LUKS_SUBSYSTEM "csi.snap.nvidia.com" /* of the header; never changes */
#define LUKS_MAPPING_PREFIX "snap-csi-"      /* of the mapping's name; never changes */

enum { LUKS_MAPPING_SIZE = 48 }; /* bytes of a mapping's name, with its NUL */

struct luks_name {
	char uuid[37];  /* of the header */
	char label[48]; /* of the header: the volume id, cut to 47 bytes */
	char mapping
		[LUKS_MAPPING_SIZE]; /* name of the device-mapper device: the prefix and the UUID */
};

void luks_name(const char *volume_id, struct luks_name *ret);
