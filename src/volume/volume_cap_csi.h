/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a volume capability from a CSI message to the plain struct. */
#pragma once

#include "csi/csi.pb-c.h"

#include "common/mem.h"
#include "volume/volume_cap.h"

/*
 * Calls volume_cap_check() for a volume of this kind. The error message begins with `field`
 * ("VolumeCapability", "VolumeCapabilities[1]"), in the Go plugin's words: "<field>: field is
 * required", "<field>.AccessMode: field is required". Strings are borrowed from the message; the
 * arena holds the list of flags.
 */
int volume_cap_from_csi(const Csi__V1__VolumeCapability *wire, const char *field,
                        enum emulation emulation, struct arena *arena, struct volume_cap *ret,
                        struct err *err) MUST_CHECK;
/*
 * Like volume_cap_from_csi(), but without volume_cap_check(): only missing or malformed fields are
 * errors.
 */
int volume_cap_shape_from_csi(const Csi__V1__VolumeCapability *wire, const char *field,
                              struct arena *arena, struct volume_cap *ret, struct err *err)
	MUST_CHECK;
