/* SPDX-License-Identifier: Apache-2.0 */
/* The wire form of a volume capability, to the plain one. */
#pragma once

#include "csi/csi.pb-c.h"

#include "common/mem.h"
#include "volume/volume_cap.h"

/*
 * `field` ("VolumeCapability", "VolumeCapabilities[1]") starts the error text, in the Go plugin's
 * words: "<field>: field is required", "<field>.AccessMode: field is required". Strings are
 * borrowed from the message; arena holds the list of flags. Calls volume_cap_check() for a volume
 * of this kind.
 */
int volume_cap_from_csi(const Csi__V1__VolumeCapability *wire, const char *field,
                        enum emulation emulation, struct arena *arena, struct volume_cap *ret,
                        struct err *err) MUST_CHECK;
/* The same without volume_cap_check(): only what is missing or malformed is an error. */
int volume_cap_shape_from_csi(const Csi__V1__VolumeCapability *wire, const char *field,
                              struct arena *arena, struct volume_cap *ret, struct err *err)
	MUST_CHECK;
