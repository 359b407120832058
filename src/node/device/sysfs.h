/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes, directories and links of sysfs, by whole paths. Objects may vanish while they are
 * read: a missing name and a removed object are both SYSFS_ABSENT. Any thread; the only state is
 * the list of attributes that threads are reading and writing now.
 *
 * These attributes of a PCI function may block while the kernel holds:
 *     driver_override, sriov_numvfs     read and write: the lock of the device, which a removal
 *     bind, unbind of its driver        or a probe that hangs keeps permanently
 *     config, vpd                       the bus: at most seconds on a function that does not answer
 *
 * class, vendor, device, resource, sriov_totalvfs, secondary_bus_number, the links and the lists of
 * names are answered from memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/str.h"

/* How sysfs is written; tests put a simulated kernel behind it. */
struct sysfs_writer {
	/* Writes the text to an existing attribute by one write(). Returns 0 or an errno. */
	int (*write)(void *arg, const char *path, const char *text);
	void *arg;
};

/* What the readers below return when there is no such attribute, link or directory (any more). */
enum { SYSFS_ABSENT = 1 };

/* <dir>/<name> without white space at the end, malloc'ed; or SYSFS_ABSENT. */
int sysfs_attr(const char *dir, const char *name, char **ret, struct err *err) MUST_CHECK;
/* A decimal number, or SYSFS_ABSENT; FAILED_PRECONDITION: it is not a number. */
int sysfs_attr_u64(const char *dir, const char *name, uint64_t *ret, struct err *err) MUST_CHECK;
/* The same for a hexadecimal number of at most 32 bits, with or without 0x ("0x010802"). */
int sysfs_attr_hex(const char *dir, const char *name, uint32_t *ret, struct err *err) MUST_CHECK;
/* The bytes of a binary attribute (vpd), malloc'ed; or SYSFS_ABSENT. */
int sysfs_bytes(const char *dir, const char *name, char **ret, size_t *ret_len, struct err *err)
	MUST_CHECK;
/* Last component of what the link points to, or SYSFS_ABSENT. */
int sysfs_link(const char *dir, const char *name, char **ret, struct err *err) MUST_CHECK;
/* Names in the directory, sorted, added to ret; or SYSFS_ABSENT. */
int sysfs_list(const char *dir, struct strs *ret, struct err *err) MUST_CHECK;
/* Does this errno say that the object does not exist (any more)? */
bool sysfs_gone(int errnum);
/*
 * Writes text to path through w (NULL: to the file itself). Returns 0 or an errno; the caller knows
 * what it means for the attribute.
 */
int sysfs_write(const struct sysfs_writer *w, const char *path, const char *text) MUST_CHECK;

/*
 * Adds to ret the attributes that a thread of this process has been reading or writing for `ms` or
 * longer: "/sys/bus/pci/devices/0000:26:00.2/driver_override for 38 s". Does not block. Returns
 * their number; ret may be NULL.
 */
size_t sysfs_hung(int64_t ms, struct strs *ret);
