/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a disk whose filesystem is being unstaged: <plugin dir>/unstaging/<hash of the
 * volume id>. NodeUnstageVolume names no disk; once the staging path is unmounted, only this record
 * tells the retry whose release it has to wait for. It is there from just before the unmount until
 * nobody holds the disk, and means nothing after a reboot.
 */
#pragma once

#include "node/node.h"

/* What is let go. */
struct leaving {
	struct device dev;
	dev_t fs; /* the number that mountinfo had for its filesystem */
};

/*
 * UNAVAILABLE when it cannot be written, or the boot is not known. Not synced: after a crash of the
 * host nothing is held.
 */
int leaving_write(const struct node *n, const char *volume_id, const struct leaving *l,
                  struct err *err) MUST_CHECK;
enum { LEAVING_NONE = 1 };
/*
 * 0: *ret is what this volume is leaving, and this host still has the disk. LEAVING_NONE: there is
 * no record, it is of another boot, or its disk has gone, though another may have its number.
 * UNAVAILABLE: there is one, but it cannot be read, or which boot this is.
 */
int leaving_read(const struct node *n, const char *volume_id, struct leaving *ret, struct err *err)
	MUST_CHECK;
/*
 * The same by the disk: *ret, malloc'ed, is a volume other than `but` that is leaving it.
 */
int leaving_volume(const struct node *n, const struct device *dev, const char *but, char **ret,
                   struct err *err) MUST_CHECK;
int leaving_remove(const struct node *n, const char *volume_id, struct err *err) MUST_CHECK;
/*
 * At the start: removes the records that surely are of other boots, and half written ones. Adds
 * what it removed to `did`.
 */
int leaving_remove_outdated(const struct node *n, struct str *did, struct err *err) MUST_CHECK;
