/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of disks: state files that tell a later call or driver process which work on a disk is
 * incomplete.
 *
 * Two kinds describe a running tool, mkfs or e2fsck. They are written and synced before the tool
 * starts. Only the file is synced, not its directory. So after a crash of the host the record may
 * be missing or truncated; a truncated record does not match any disk. In both cases an incomplete
 * filesystem is rejected, and data are never overwritten.
 *
 * The third kind describes a disk whose filesystem is being unstaged. NodeUnstageVolume does not
 * name the disk; once the staging path is unmounted, only this record tells a retry which disk must
 * become free. It exists from just before the unmount until no process holds the disk. It is not
 * synced, because after a crash of the host there are no holders.
 *
 * The fourth kind has the original settings of a disk's request queue (queue_settings.h), which
 * NodeUnstageVolume needs to restore them. It exists from before the change until the settings are
 * restored.
 *
 * The fifth kind describes a running command that opens a container (crypt.c). It is not synced,
 * because after a crash of the host the command does not run.
 */
#pragma once

#include "node/node.h"

enum disk_record_kind {
	DISK_RECORD_MKFS,
	DISK_RECORD_E2FSCK,
	DISK_RECORD_UNSTAGE,
	DISK_RECORD_SETTINGS,
	DISK_RECORD_LUKS
};

struct disk_record {
	const char *volume_id;
	const struct device *dev;
	const char *fs_type;    /* record of a tool: filesystem type */
	uint64_t diskseq;       /* the disk's sequence number, unique per boot; 0: unknown */
	const char *attachment; /* record of a tool: UID of the attachment; "" or NULL: unknown */
	dev_t fs;          /* record of an unstage: device number of the filesystem in mountinfo */
	const char *lines; /* record of settings: additional lines */
};

/* Returns the kind of a record of a tool from the name of its file. */
enum disk_record_kind disk_record_kind_of(const char *name);
/* Returns the path of the volume's file, malloc'ed. */
char *disk_record_path(const struct node *n, const char *volume_id, enum disk_record_kind kind);
/*
 * Formats the record; *ret is the text of the file, malloc'ed. UNAVAILABLE: the boot ID is unknown.
 * INVALID_ARGUMENT: a string of the record has a control character.
 */
int disk_record_text(const struct node *n, enum disk_record_kind kind, const struct disk_record *r,
                     char **ret, struct err *err) MUST_CHECK;
enum { DISK_RECORD_ABSENT = 1 };
/*
 * Reads the record. Returns 0 if it is from this boot, and its disk is still present: *dev is the
 * disk, and for an unstage *fs is the filesystem. Returns DISK_RECORD_ABSENT if there is no record,
 * it is from another boot, or its disk was removed, even if another disk has the same device number
 * now. UNAVAILABLE: the record cannot be read, or the boot ID is unknown.
 */
int disk_record_read(const struct node *n, const char *volume_id, enum disk_record_kind kind,
                     struct device *dev, dev_t *fs, struct err *err) MUST_CHECK;
/*
 * Returns a description for messages, such as "mkfs.ext4 of volume pvc-1", from the file name and
 * the text of a tool's record; malloc'ed. Returns NULL if the text is truncated.
 */
char *disk_record_describe(const char *name, const char *text);
/*
 * Returns true if the text cannot match any disk, because it is from another boot and has no
 * attachment UID.
 */
bool disk_record_is_outdated(const struct node *n, const char *text);

/* ---- tools ---- */

/*
 * Returns 0 if there is a record of this volume, device and filesystem in the same attachment. The
 * attachment is the same if its UID is; the UID does not change when the node reboots. If either
 * UID is unknown, the record must be from this boot and have the same, known disk sequence number.
 * Returns DISK_RECORD_ABSENT if there is no record, or it is of another attachment; other hosts may
 * have written to the volume since. UNAVAILABLE: the record cannot be read, or the boot ID is
 * unknown.
 */
int disk_record_matches(const struct node *n, enum disk_record_kind kind,
                        const struct disk_record *r, struct err *err) MUST_CHECK;
/*
 * To be called before a disk is handed out. Removes the volume's records of tools and the records
 * of other volumes about this disk, and syncs the removal. read_only: keeps records of e2fsck,
 * because a read-only stage does not complete an interrupted check. UNAVAILABLE: a record cannot be
 * removed (the message names it), or the directory cannot be read.
 */
int disk_records_end(struct node *n, const char *volume_id, const struct device *dev,
                     uint64_t diskseq, bool read_only, struct err *err) MUST_CHECK;

/* ---- unstages ---- */

/* Writes the record of an unstage. UNAVAILABLE: it cannot be written, or the boot ID is unknown. */
int disk_record_put_unstage(const struct node *n, const struct disk_record *r, struct err *err)
	MUST_CHECK;
int disk_record_remove_unstage(const struct node *n, const char *volume_id, struct err *err)
	MUST_CHECK;
/*
 * Finds an unstage record by its disk: *ret, malloc'ed, is a volume other than `but` whose unstage
 * record is about this disk. Returns as disk_record_read() does.
 */
int disk_record_unstaging(const struct node *n, const struct device *dev, const char *but,
                          char **ret, struct err *err) MUST_CHECK;
