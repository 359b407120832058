/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as input of the parser of PCI vital product data, which a device controls. The bytes are
 * copied to memory of exactly their size, so that a read beyond it is detected.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "node/device/vpd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char value[VPD_VALUE_MAX], *exact = xmalloc(n);

	memcpy(exact, data, n);
	if (vpd_field(exact, n, "VU", value) && memchr(value, '\0', sizeof(value)) == NULL)
		abort();
	free(exact);
	return 0;
}
