/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one field of the vital product data of a PCI function (PCI Local Bus 3.0, appendix I). The
 * bytes come from a device and are not trusted. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VPD_VALUE_MAX 256 /* a field has at most 255 bytes; plus a NUL */

/*
 * Returns in ret the first field with that two-letter keyword in a VPD-R or VPD-W resource, without
 * leading and trailing NULs and whitespace. Returns false, with ret unchanged, if there is no such
 * field or its value is not printable ASCII. Fields before damaged data are found, fields after it
 * are not.
 */
bool vpd_field(const char *bytes, size_t n, const char *keyword, char ret[VPD_VALUE_MAX]);
