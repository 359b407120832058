/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one field of the vital product data of a PCI function (PCI Local Bus 3.0, appendix I). The
 * bytes come from a device and are not trusted. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VPD_VALUE_MAX 256 /* a field's length is one byte, and a NUL */

/*
 * The first field of that two-letter keyword in a VPD-R or VPD-W resource, without NULs and white
 * space at its ends. False, and ret untouched: there is none, or its value is not printable ASCII.
 * Fields in front of a damaged place count, fields behind it do not.
 */
bool vpd_field(const char *bytes, size_t n, const char *keyword, char ret[VPD_VALUE_MAX]);
