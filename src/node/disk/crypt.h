/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encrypted container of a volume: a LUKS2 header on its disk, and while the volume is staged, a
 * mapping of dm-crypt (device/mapping.h), which is the device that is formatted and mounted. The
 * driver's own command "luks" (luks/luks.h) does the work with keys, as a child process.
 *
 * format.c decides whether a container may be created. The callers hold the lock of the disk
 * (orphan_tool.h), which the child inherits. Any thread.
 */
#pragma once

#include <stdbool.h>

#include "common/secret.h"
#include "node/node.h"

/* Bytes of a disk that are not part of its container: the header that libcryptsetup 2 writes. */
#define CRYPT_HEADER_BYTES (16ULL * 1024 * 1024)

struct crypt_request {
	const struct node *node;
	const char *volume_id;
	const struct device *disk;
	int fd; /* open on the disk */
	const struct volume_params *params;
	const struct passphrases *keys;
	bool read_only;
	bool in_job; /* the caller has a turn of job.h, so the command needs no place of its own */
	bool shared; /* several nodes may have the disk: the header is not changed */
};

/* Returns true if the disk has a header that this driver has written, for any volume. */
bool crypt_has_header(int fd);
/*
 * Writes a new header with a new volume key, which makes all earlier content of the disk
 * unreadable. Only for format.c. NOT_FOUND: libcryptsetup is not installed; nothing was written.
 */
int crypt_format(const struct crypt_request *r, struct err *err) MUST_CHECK;
enum { CRYPT_INCOMPLETE = 1 };
/*
 * Opens the container, and completes a rotation if a previous passphrase is given. Returns
 * CRYPT_INCOMPLETE (with *err set) if the header is damaged or has no passphrase, as an interrupted
 * crypt_format() leaves it. A rotation is not completed if the request is read-only or shared. -1
 * FAILED_PRECONDITION: no passphrase opens it, the header is of another
 * volume, or the host lacks dm-crypt or libcryptsetup.
 */
int crypt_open(const struct crypt_request *r, struct deadline d, struct device *ret,
               struct err *err) MUST_CHECK;
/* Grows the volume's open mapping to the size of its disk. Errors are those of crypt_open(). */
int crypt_resize(const struct crypt_request *r, struct deadline d, struct err *err) MUST_CHECK;
/* Finds the volume's open mapping. Returns 0, DEVICE_ABSENT or -1. */
int crypt_find(const struct node *n, const char *volume_id, struct device *ret, struct err *err)
	MUST_CHECK;
/*
 * Closes a mapping; waits a moment for short-lived holders, such as udev's probe.
 * FAILED_PRECONDITION: a mount still shows it. UNAVAILABLE: a process or a device still has it open.
 * The message names the holder.
 */
int crypt_close(const struct node *n, const struct device *mapping, struct deadline d,
                struct err *err) MUST_CHECK;
/*
 * Closes the volume's mapping, if it has one. No command of the volume runs (orphan_tool.h). Errors
 * are those of crypt_close().
 */
int crypt_close_volume(const struct node *n, const char *volume_id, struct deadline d,
                       struct err *err) MUST_CHECK;
/*
 * Removes a mapping without a table, which sysfs does not show. A command that is killed in the middle
 * of an open leaves it, and it blocks the name of the mapping.
 */
void crypt_clear(const struct node *n, const char *volume_id);
/*
 * Adds the names of the processes that have the mapping open to `text`, or why none can be named.
 * Returns their number.
 */
unsigned crypt_name_holders(const struct node *n, const struct device *mapping, struct deadline d,
                            struct str *text);
/*
 * Returns true if no mount shows the mapping and no call has locked its disk, so crypt_recover()
 * would close it. Takes no lock and changes nothing.
 */
bool crypt_is_orphan(const struct node *n, const struct device *mapping);
/*
 * Closes mappings that an earlier driver process has left: those that no mount shows, no process has
 * open, and no call works on. Appends their names to `did`.
 */
int crypt_recover(const struct node *n, struct str *did, struct err *err) MUST_CHECK;
