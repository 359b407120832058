/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtio-fs function in a simulated sysfs tree, with a config space whose window shows the tag as
 * QEMU's does. A program that uses this reads and writes each file named "config" through it:
 * pread() and pwrite() replace the C library's. Any failure fails the running test.
 */
#pragma once

#include <stdbool.h>

/*
 * 0000:22:00.0 and the like: class 0x018000, device 0x105a, vendor "0x1af4\n" or "0x15b3\n". tag
 * NULL: it does not show one yet.
 */
void virtio_function_add(const char *sysfs, const char *pci, const char *vendor, const char *tag);
/* Another tag, or NULL: none. */
void virtio_function_set_tag(const char *sysfs, const char *pci, const char *tag);
/* Config spaces cannot be written, as under lockdown. */
void virtio_function_lock_down(bool locked);
/* How many times a position was written to a window so far. */
unsigned virtio_function_looks(void);
