/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vital product data of a PCI function (PCI Local Bus 3.0, appendix I): bytes in, one field
 * out. The bytes come from a device and are not trusted. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VPD_VALUE_MAX 256 /* a field's length is one byte, and a NUL */

/*
 * The first field of that two-letter keyword in a VPD-R or VPD-W resource, without NULs and white
 * space at its ends. False, and ret untouched: none, or its value is not printable ASCII. What
 * stands before a damaged place counts, what stands behind it does not.
 */
bool vpd_field(const char *bytes, size_t n, const char *keyword, char ret[VPD_VALUE_MAX]);
