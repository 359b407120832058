/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tag of a virtio-fs function from the configuration of its virtio device. Needed for
 * kernels before 6.9, which do not show tags, and for a function that is not bound to the kernel's
 * driver. Private to this directory. No state, any thread.
 *
 * Sources: Virtio 1.2 sections 4.1.4 (capabilities) and 5.11.4 (the tag); Linux
 * include/uapi/linux/virtio_pci.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/str.h"
#include "node/device/device.h"

/* Size of the part of the config space that holds all capabilities used here, in bytes. */
enum { PCI_CONFIG_MAX = 256 };

/* The location of the virtio device's configuration, and the capability for reading it. */
struct virtio_cap_window {
	unsigned bar;    /* 0 to 5 */
	uint32_t offset; /* in the BAR; DEVICE_TAG_MAX bytes from there are the tag */
	/* Offset in the config space of the capability through which BARs can be read. */
	unsigned window;
};

/*
 * Parses the first bytes of a function's config space, which are not trusted. Returns false if they
 * do not contain a valid location.
 */
bool virtio_find_config(const uint8_t *config, size_t n, struct virtio_cap_window *ret);
/*
 * Extracts the tag from its DEVICE_TAG_MAX bytes. Returns false if it is not a valid tag
 * (device_tag_check()).
 */
bool virtio_tag_of(const uint8_t bytes[DEVICE_TAG_MAX], char ret[DEVICE_TAG_MAX + 4]);

/* The tag cannot be read on this host. */
enum { VIRTIO_TAG_UNKNOWN = 1 };

/*
 * Reads the tag of the function with this sysfs directory, whether or not it is bound to a driver.
 * Returns 0, or VIRTIO_TAG_UNKNOWN with the reason in `why` (lockdown, a function that does not
 * respond yet). -1 UNAVAILABLE: this process lacks resources (descriptors). Call it only for a
 * function that this driver may use, because it writes the address into the function's window; it
 * writes nothing else.
 */
int virtio_tag_read(const char *dir, char ret[DEVICE_TAG_MAX + 4], struct str *why, struct err *err)
	MUST_CHECK;
