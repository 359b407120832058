/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of mkfs and e2fsck at work: files below the driver's own folder, so that a later start
 * knows what an earlier one has left half done. The node's only state.
 *
 * A record is on the disk before the tool starts. It is one synced file: when the host dies before
 * its directory entry is written, there is none, and when it is cut it matches nothing; both mean
 * that a half-made filesystem is refused, never that data are overwritten.
 */
#pragma once

#include "node/node.h"

enum job_record_kind { JOB_RECORD_MKFS, JOB_RECORD_E2FSCK };

/* What the tool works on. */
struct job_record {
	const char *volume_id;
	const struct device *dev;
	const char *fs_type;
	uint64_t diskseq;       /* the disk's number until the next boot; 0: unknown */
	const char *attachment; /* UID of the volume's attachment; "" or NULL: unknown */
};

/* The file of a volume; malloc'ed. */
char *job_record_path(const struct node *n, const char *volume_id, enum job_record_kind kind);
/* *ret: what the file of this record says, malloc'ed. UNAVAILABLE: the boot is not known. */
int job_record_text(const struct node *n, const struct job_record *r, char **ret, struct err *err)
	MUST_CHECK;
enum { JOB_RECORD_ABSENT = 1 };
/*
 * 0: there is a record of this volume, device and filesystem in this very attachment: it has the
 * same attachment's UID, which outlives a reboot of the node; or one of the two UIDs is unknown,
 * and it was made in this boot with the same disk sequence number, which is known.
 * JOB_RECORD_ABSENT: there is none, or of another attachment, during which others may have written
 * to the volume. UNAVAILABLE: there is one, but it cannot be read, or which boot this is.
 */
int job_record_matches(const struct node *n, enum job_record_kind kind, const struct job_record *r,
                       struct err *err) MUST_CHECK;
/*
 * 0: *ret is the disk that this volume's tool was begun on, in this boot, and this host still has
 * it. JOB_RECORD_ABSENT: there is no record, or no such disk any more, though another may have its
 * number. UNAVAILABLE: there is one, but it cannot be read, or which boot this is.
 */
int job_record_disk(const struct node *n, const char *volume_id, enum job_record_kind kind,
                    struct device *ret, struct err *err) MUST_CHECK;
/*
 * Before a disk is handed out: removes the volume's records, and those of other volumes about this
 * disk; they do not come back after a crash. read_only: records of e2fsck stay, because a reader
 * does not complete an interrupted check. UNAVAILABLE: a record cannot be removed (the text names
 * it), or the folder cannot be read.
 */
int job_records_end(struct node *n, const char *volume_id, const struct device *dev,
                    uint64_t diskseq, bool read_only, struct err *err) MUST_CHECK;
/* Does the file's text surely match no disk? It is of another boot, and no UID says more. */
bool job_record_is_outdated(const struct node *n, const char *text);
/*
 * "mkfs.ext4 of volume pvc-1", for people, from the name and text of a file; malloc'ed. NULL: it is
 * cut.
 */
char *job_record_describe(const char *name, const char *text);
