/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of disks: state files by which a later call, or a later driver, learns what an earlier
 * one has left half done. Two kinds are about a tool, mkfs or e2fsck, at work: they are on the disk
 * before the tool starts. One file is synced: when the host dies before its directory entry is
 * written, there is none, and when it is cut it matches nothing; both mean that a half-made
 * filesystem is refused, never that data are overwritten.
 *
 * The third kind is about a disk whose filesystem is being unstaged. NodeUnstageVolume names no
 * disk; once the staging path is unmounted, only this record tells the retry whose release it has
 * to wait for. It is there from just before the unmount until no process holds the disk. It is not
 * synced: after a crash of the host nothing is held.
 */
#pragma once

#include "node/node.h"

enum disk_record_kind { DISK_RECORD_MKFS, DISK_RECORD_E2FSCK, DISK_RECORD_UNSTAGE };

struct disk_record {
	const char *volume_id;
	const struct device *dev;
	const char *fs_type;    /* of a tool */
	uint64_t diskseq;       /* the disk's number until the next boot; 0: unknown */
	const char *attachment; /* of a tool: UID of the attachment; "" or NULL: unknown */
	dev_t fs;               /* of an unstage: the filesystem's number in mountinfo */
};

/* The file of a volume; malloc'ed. */
char *disk_record_path(const struct node *n, const char *volume_id, enum disk_record_kind kind);
/* *ret: the text of the file, malloc'ed. UNAVAILABLE: the boot is not known. */
int disk_record_text(const struct node *n, enum disk_record_kind kind, const struct disk_record *r,
                     char **ret, struct err *err) MUST_CHECK;
enum { DISK_RECORD_ABSENT = 1 };
/*
 * 0: *dev is the disk that the volume's record is about, in this boot, and this host still has it;
 * *fs, of an unstage, is its filesystem. DISK_RECORD_ABSENT: there is no record, it is of another
 * boot, or its disk has gone, though another may have its number. UNAVAILABLE: there is one, but it
 * cannot be read, or which boot this is.
 */
int disk_record_read(const struct node *n, const char *volume_id, enum disk_record_kind kind,
                     struct device *dev, dev_t *fs, struct err *err) MUST_CHECK;
/*
 * "mkfs.ext4 of volume pvc-1", for people, from the name and text of a tool's file; malloc'ed.
 * NULL: it is cut.
 */
char *disk_record_describe(const char *name, const char *text);
/* True: the text matches no disk. It is of another boot, and has no attachment's UID. */
bool disk_record_is_outdated(const struct node *n, const char *text);

/* ---- tools ---- */

/*
 * 0: there is a record of this volume, device and filesystem in this very attachment: it has the
 * same attachment's UID, which outlives a reboot of the node; or one of the two UIDs is unknown,
 * and it was made in this boot with the same disk sequence number, which is known.
 * DISK_RECORD_ABSENT: there is none, or of another attachment, during which others may have written
 * to the volume. UNAVAILABLE: there is one, but it cannot be read, or which boot this is.
 */
int disk_record_matches(const struct node *n, enum disk_record_kind kind,
                        const struct disk_record *r, struct err *err) MUST_CHECK;
/*
 * Before a disk is handed out: removes the volume's records of tools, and those of other volumes
 * about this disk; they do not come back after a crash. read_only: records of e2fsck stay, because
 * a reader does not complete an interrupted check. UNAVAILABLE: a record cannot be removed (the
 * text names it), or the folder cannot be read.
 */
int disk_records_end(struct node *n, const char *volume_id, const struct device *dev,
                     uint64_t diskseq, bool read_only, struct err *err) MUST_CHECK;

/* ---- unstages ---- */

/* Writes the record of an unstage. UNAVAILABLE: it cannot be written, or the boot is not known. */
int disk_record_put_unstage(const struct node *n, const struct disk_record *r, struct err *err)
	MUST_CHECK;
int disk_record_remove_unstage(const struct node *n, const char *volume_id, struct err *err)
	MUST_CHECK;
/*
 * disk_record_read() by the disk: *ret, malloc'ed, is a volume other than `but` whose unstage is
 * about it.
 */
int disk_record_unstaging(const struct node *n, const struct device *dev, const char *but,
                          char **ret, struct err *err) MUST_CHECK;
