/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads attributes, directories and links of sysfs, and writes attributes, by full paths. Objects
 * may vanish while they are read: the functions return SYSFS_ABSENT for a missing name and for a
 * removed object. Any thread; the only state is the list of attributes that threads are reading or
 * writing now.
 *
 * Accesses to these attributes of a PCI function may block while the kernel holds a lock:
 *     driver_override, sriov_numvfs     read and write: the lock of the device, which a removal
 *     bind, unbind of its driver        or a probe that hangs keeps permanently
 *     config, vpd                       the bus: at most seconds if a function does not respond
 *
 * The kernel returns class, vendor, device, resource, sriov_totalvfs, secondary_bus_number, the
 * links and the directory entries without an access to the device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/str.h"

/* The write function for sysfs; tests substitute a simulated kernel. */
struct sysfs_writer {
	/* Writes the text to an existing attribute by one write(). Returns 0 or an errno. */
	int (*write)(void *arg, const char *path, const char *text);
	void *arg;
};

/* Returned by the functions below if there is no such attribute, link or directory (any more). */
enum { SYSFS_ABSENT = 1 };

/* Returns the contents of <dir>/<name> without trailing whitespace, malloc'ed; or SYSFS_ABSENT. */
int sysfs_attr(const char *dir, const char *name, char **ret, struct err *err) MUST_CHECK;
/* Returns a decimal number, or SYSFS_ABSENT. FAILED_PRECONDITION: the contents are not a number. */
int sysfs_attr_u64(const char *dir, const char *name, uint64_t *ret, struct err *err) MUST_CHECK;
/*
 * Like sysfs_attr_u64(), for a hexadecimal number of at most 32 bits, with or without 0x
 * ("0x010802").
 */
int sysfs_attr_hex(const char *dir, const char *name, uint32_t *ret, struct err *err) MUST_CHECK;
/* Returns the bytes of a binary attribute (vpd), malloc'ed; or SYSFS_ABSENT. */
int sysfs_bytes(const char *dir, const char *name, char **ret, size_t *ret_len, struct err *err)
	MUST_CHECK;
/* Returns the last component of the link's target, or SYSFS_ABSENT. */
int sysfs_link(const char *dir, const char *name, char **ret, struct err *err) MUST_CHECK;
/*
 * Adds the names in the directory to ret, sorted. Returns SYSFS_ABSENT if there is no such
 * directory.
 */
int sysfs_list(const char *dir, struct strs *ret, struct err *err) MUST_CHECK;
/* Returns true if this errno means that the object does not exist (any more). */
bool sysfs_gone(int errnum);
/*
 * Writes the text to the path by w->write(), or directly if w is NULL. Returns 0 or an errno, whose
 * meaning depends on the attribute.
 */
int sysfs_write(const struct sysfs_writer *w, const char *path, const char *text) MUST_CHECK;

/*
 * Adds to ret the attributes that a thread of this process has been reading or writing for `ms`
 * milliseconds or longer: "/sys/bus/pci/devices/0000:26:00.2/driver_override for 38 s". Returns
 * their number. Does not block. ret may be NULL.
 */
size_t sysfs_hung(int64_t ms, struct strs *ret);
