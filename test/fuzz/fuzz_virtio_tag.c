/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as the config space of a virtio function, and as its tag: a device controls both. They are
 * copied to memory of exactly their size, so that a read beyond it is detected.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "node/device/virtio_tag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t size = n < PCI_CONFIG_MAX ? n : PCI_CONFIG_MAX;
	uint8_t *exact = xmalloc(size ? size : 1), bytes[DEVICE_TAG_MAX] = { 0 };
	char tag[DEVICE_TAG_MAX + 4];
	struct virtio_cap_window cap;
	struct err err = ERR_INIT;

	memcpy(exact, data, size);
	/* Accepted fields are within the space, and are read in whole words. */
	if (virtio_find_config(exact, size, &cap) &&
	    (size < PCI_CONFIG_MAX || cap.bar > 5 || cap.offset % 4 ||
	     cap.offset + DEVICE_TAG_MAX < cap.offset || cap.window < 0x40 ||
	     cap.window + 20 > PCI_CONFIG_MAX))
		abort();
	memcpy(bytes, data, n < sizeof(bytes) ? n : sizeof(bytes));
	if (virtio_tag_of(bytes, tag) && device_tag_check(tag, &err))
		abort();
	free(exact);
	return 0;
}
