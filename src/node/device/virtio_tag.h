/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tag that a virtio-fs function itself shows, in the configuration of its virtio device: for
 * kernels before 6.9, which show no tags, and before the kernel's driver holds it. Private to this
 * room. No state, any thread.
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

/* As many bytes of the config space hold all capabilities that are asked for here. */
enum { PCI_CONFIG_MAX = 256 };

/* Where the configuration of the virtio device is, and how it is read. */
struct virtio_cap_window {
	unsigned bar;    /* 0 to 5 */
	uint32_t offset; /* in it; DEVICE_TAG_MAX bytes from there are the tag */
	/* The capability in the config space through which BARs can be read. */
	unsigned window;
};

/*
 * Finds it in the first bytes of a function's config space, which may be any bytes. False: they do
 * not say where, or say what cannot be.
 */
bool virtio_find_config(const uint8_t *config, size_t n, struct virtio_cap_window *ret);
/* Takes the tag out of its DEVICE_TAG_MAX bytes. False: these are no tag (device_tag_check()). */
bool virtio_tag_of(const uint8_t bytes[DEVICE_TAG_MAX], char ret[DEVICE_TAG_MAX + 4]);

/* The tag cannot be read on this host. */
enum { VIRTIO_TAG_UNKNOWN = 1 };

/*
 * Reads the tag of the function whose sysfs directory this is, whether a driver holds it or not. 0,
 * or VIRTIO_TAG_UNKNOWN: `why` says what keeps it from being read (lockdown, a function that does
 * not answer yet). -1 UNAVAILABLE: this process lacks what it needs for reading it (descriptors).
 * Only for a function that the driver may use: it writes the address into the function's window,
 * and nothing else.
 */
int virtio_tag_read(const char *dir, char ret[DEVICE_TAG_MAX + 4], struct str *why, struct err *err)
	MUST_CHECK;
