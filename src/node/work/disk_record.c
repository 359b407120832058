/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record consists of lines key=value. Keys and order are those of older versions of the driver,
 * so that these can read the record. format.c, check.c and unstage_disk.c decide what a record
 * permits.
 */
#include "node/work/disk_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/work/state_file.h"

static const struct {
	const char *folder, *suffix;
} files[] = {
	[DISK_RECORD_MKFS] = { STATE_DIR_JOBS, "" },
	[DISK_RECORD_E2FSCK] = { STATE_DIR_JOBS, ".e2fsck" },
	[DISK_RECORD_UNSTAGE] = { STATE_DIR_UNSTAGING, "" },
	[DISK_RECORD_SETTINGS] = { STATE_DIR_SETTINGS, "" },
	[DISK_RECORD_LUKS] = { STATE_DIR_JOBS, ".luks" },
};

static bool is_check(const char *name)
{
	return str_has_suffix(name, files[DISK_RECORD_E2FSCK].suffix);
}

enum disk_record_kind disk_record_kind_of(const char *name)
{
	if (is_check(name))
		return DISK_RECORD_E2FSCK;
	return str_has_suffix(name, files[DISK_RECORD_LUKS].suffix) ? DISK_RECORD_LUKS
	                                                            : DISK_RECORD_MKFS;
}

char *disk_record_path(const struct node *n, const char *volume_id, enum disk_record_kind kind)
{
	return state_file_path(n, files[kind].folder, volume_id, files[kind].suffix);
}

/* ---- the text of a record ---- */

/* Returns the first lines of a tool's record, all of which must match. */
static char *tool_lines(const struct disk_record *r)
{
	return xasprintf("volume=%s\nuuid=%s\nnsid=%u\nsize=%llu\nfilesystem=%s\n", r->volume_id,
	                 r->dev->uuid, r->dev->nsid, (unsigned long long)r->dev->size, r->fs_type);
}

/*
 * Rejects a newline, which would add a line to the record, and so turn it into a record of another
 * disk or boot.
 */
static int check_value(const char *key, const char *text, struct err *err)
{
	if (!text || !has_control(text, strlen(text), ""))
		return 0;
	return err_set(err, ERR_INVALID, "%s \"%s\" has a control character: it is not recorded",
	               key, text);
}

int disk_record_text(const struct node *n, enum disk_record_kind kind, const struct disk_record *r,
                     char **ret, struct err *err)
{
	unsigned disk[] = { major(r->dev->devno), minor(r->dev->devno) };
	char *tool AUTO(free) = NULL, *seq AUTO(free) = NULL;
	char boot[BOOT_ID_SIZE];

	if (check_value("volume", r->volume_id, err) || check_value("uuid", r->dev->uuid, err) ||
	    node_boot_id(n, boot, err))
		return -1;
	seq = xasprintf("boot=%s\ndiskseq=%llu\n", boot, (unsigned long long)r->diskseq);
	if (kind == DISK_RECORD_UNSTAGE) {
		*ret = xasprintf("device=%u:%u filesystem=%u:%u\nvolume=%s\nuuid=%s\nnsid=%u\n%s",
		                 disk[0], disk[1], major(r->fs), minor(r->fs), r->volume_id,
		                 r->dev->uuid, r->dev->nsid, seq);
		return 0;
	}
	if (kind == DISK_RECORD_SETTINGS) {
		*ret = xasprintf("device=%u:%u\nvolume=%s\nuuid=%s\nnsid=%u\n%s%s", disk[0],
		                 disk[1], r->volume_id, r->dev->uuid, r->dev->nsid, seq, r->lines);
		return 0;
	}
	if (check_value("filesystem", r->fs_type, err) ||
	    check_value("attachment", r->attachment, err))
		return -1;
	tool = tool_lines(r);
	*ret = xasprintf("%sdevice=%u:%u\n%sattachment=%s\n", tool, disk[0], disk[1], seq,
	                 r->attachment ? r->attachment : "");
	return 0;
}

static bool has_number(const char *text, const char *key, uint64_t value)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
	return state_file_has_line(text, key, number);
}

/*
 * Finds the disk that now has the record's device number, and checks that it is the disk in the
 * record.
 */
static int disk_record_find(const struct node *n, const char *volume_id, enum disk_record_kind kind,
                            const char *text, struct device *dev, dev_t *fs, struct err *err)
{
	char *numbers AUTO(free) = state_file_value(text, "device");
	char boot[BOOT_ID_SIZE];
	unsigned at[4] = { 0 };
	int rc;

	if (!numbers || sscanf(numbers, "%u:%u filesystem=%u:%u", &at[0], &at[1], &at[2], &at[3]) !=
	                        (kind == DISK_RECORD_UNSTAGE ? 4 : 2))
		return DISK_RECORD_ABSENT;
	rc = device_by_number(&n->o.world, makedev(at[0], at[1]), dev, err);
	if (rc)
		return rc < 0 ? -1 : DISK_RECORD_ABSENT;
	if (node_boot_id(n, boot, err))
		return -1;
	*fs = makedev(at[2], at[3]);
	return state_file_has_line(text, "volume", volume_id) &&
	                       state_file_has_line(text, "boot", boot) &&
	                       state_file_has_line(text, "uuid", dev->uuid) &&
	                       has_number(text, "nsid", dev->nsid) &&
	                       has_number(text, "diskseq", dev->diskseq)
	               ? 0
	               : DISK_RECORD_ABSENT;
}

int disk_record_read(const struct node *n, const char *volume_id, enum disk_record_kind kind,
                     struct device *dev, dev_t *fs, struct err *err)
{
	char *path AUTO(free) = disk_record_path(n, volume_id, kind);
	char *text AUTO(free) = NULL;
	int rc = state_file_read(path, &text, err);

	if (rc == STATE_FILE_NONE)
		return DISK_RECORD_ABSENT;
	if (!rc)
		rc = disk_record_find(n, volume_id, kind, text, dev, fs, err);
	if (rc >= 0)
		return rc;
	if (kind == DISK_RECORD_UNSTAGE)
		err_wrap(err, "look for the disk that an earlier unstage has unmounted");
	return err_recode(err, ERR_UNAVAILABLE);
}

char *disk_record_describe(const char *name, const char *text)
{
	static const char *const does[] = {
		[DISK_RECORD_MKFS] = "mkfs.",
		[DISK_RECORD_E2FSCK] = "check of ",
		[DISK_RECORD_LUKS] = "open of ",
	};
	char *volume AUTO(free) = state_file_value(text, "volume");
	char *type AUTO(free) = state_file_value(text, "filesystem");

	if (!volume || !type)
		return NULL;
	return xasprintf("%s%s of volume %s", does[disk_record_kind_of(name)], type, volume);
}

bool disk_record_is_outdated(const struct node *n, const char *text)
{
	char *attachment AUTO(free) = state_file_value(text, "attachment");
	struct err ignored = ERR_INIT;
	char boot[BOOT_ID_SIZE];

	if (node_boot_id(n, boot, &ignored) || state_file_has_line(text, "boot", boot))
		return false;
	return str_empty(attachment) || !str_has_suffix(text, "\n");
}

/* ---- tools ---- */

/*
 * If both UIDs are known, only they are compared, because the disk sequence number stays the same
 * if a volume is detached and attached again within a boot and the host never lost the namespace.
 * If a UID is unknown, the sequence numbers are compared. A truncated record proves nothing.
 */
static bool is_same_attachment(const struct disk_record *r, const char *boot, const char *text)
{
	char *attachment AUTO(free) = state_file_value(text, "attachment");
	char *last AUTO(free) = xasprintf("\nattachment=%s\n", attachment ? attachment : "");

	if (!attachment || !str_has_suffix(text, last))
		return false;
	if (*attachment && !str_empty(r->attachment))
		return str_eq(attachment, r->attachment);
	return r->diskseq && state_file_has_line(text, "boot", boot) &&
	       has_number(text, "diskseq", r->diskseq);
}

int disk_record_matches(const struct node *n, enum disk_record_kind kind,
                        const struct disk_record *r, struct err *err)
{
	char *path AUTO(free) = disk_record_path(n, r->volume_id, kind);
	char *first AUTO(free) = tool_lines(r);
	char *text AUTO(free) = NULL;
	char boot[BOOT_ID_SIZE];
	int rc = state_file_read(path, &text, err);

	if (rc)
		return rc < 0 ? -1 : DISK_RECORD_ABSENT;
	if (node_boot_id(n, boot, err))
		return -1;
	return str_has_prefix(text, first) && is_same_attachment(r, boot, text + strlen(first))
	               ? 0
	               : DISK_RECORD_ABSENT;
}

/* Returns true if a later stage of any volume may treat this record as one of the disk. */
static bool may_match(const char *text, const char *boot, const struct device *dev,
                      uint64_t diskseq)
{
	char *uuid AUTO(free) = state_file_value(text, "uuid"), *seq AUTO(free) = NULL;

	if (!str_empty(uuid) && *dev->uuid)
		return str_eq(uuid, dev->uuid);
	if (!has_number(text, "nsid", dev->nsid) || !has_number(text, "size", dev->size))
		return false;
	seq = state_file_value(text, "diskseq");
	return !diskseq || str_empty(seq) || str_eq(seq, "0") ||
	       /* the two disks cannot be distinguished */
	       !state_file_has_line(text, "boot", boot) || has_number(text, "diskseq", diskseq);
}

/* A disk that is about to be handed out. */
struct handed_out {
	const struct device *dev;
	uint64_t diskseq;
	char boot[BOOT_ID_SIZE];
	const char *own[2]; /* names of the volume's own records */
	bool read_only;
};

enum { RECORD_STAYS = 1 };
/*
 * Returns 0 if the record is to be removed. A file that is not a record stays, because it never
 * matches a disk.
 */
static int disk_record_ends(const struct handed_out *h, const char *name, const char *path,
                            struct err *err)
{
	char *text AUTO(free) = NULL;
	int rc;

	/* A record of an interrupted check stays valid until the filesystem is written. */
	if (h->read_only && is_check(name))
		return RECORD_STAYS;
	for (size_t i = 0; i < ARRAY_LEN(h->own); i++)
		if (str_eq(name, h->own[i]))
			return 0;
	rc = state_file_read(path, &text, err);
	if (rc < 0 && err->sys)
		return -1;
	err_clear(err);
	return rc == 0 && may_match(text, h->boot, h->dev, h->diskseq) ? 0 : RECORD_STAYS;
}

static int end_records(struct node *n, const struct handed_out *h, bool *ret_ended, struct err *err)
{
	char *dir AUTO(free) = state_file_folder(n, STATE_DIR_JOBS);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);
		int rc = disk_record_ends(h, names.v[i], path, err);

		if (rc == 0) {
			*ret_ended = true;
			atomic_store(&n->records_synced, false);
			rc = state_file_remove(path, err);
		}
		if (rc < 0)
			return -1;
	}
	return 0;
}

int disk_records_end(struct node *n, const char *volume_id, const struct device *dev,
                     uint64_t diskseq, bool read_only, struct err *err)
{
	struct handed_out h = { .dev = dev, .diskseq = diskseq, .read_only = read_only };
	char *mkfs AUTO(free) = disk_record_path(n, volume_id, DISK_RECORD_MKFS);
	char *e2fsck AUTO(free) = disk_record_path(n, volume_id, DISK_RECORD_E2FSCK);
	/* A killed driver may have removed a record without syncing the directory. */
	bool ended = !atomic_load(&n->records_synced);
	struct err ignored = ERR_INIT;

	h.own[DISK_RECORD_MKFS] = strrchr(mkfs, '/') + 1;
	h.own[DISK_RECORD_E2FSCK] = strrchr(e2fsck, '/') + 1;
	IGNORE_RESULT(node_boot_id(n, h.boot, &ignored));
	if (end_records(n, &h, &ended, err) || (ended && state_file_sync(n, STATE_DIR_JOBS, err))) {
		err_wrap(err,
		         "%s is not handed out: its records of earlier mkfs and e2fsck must be "
		         "removed first",
		         dev->path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	atomic_store(&n->records_synced, true);
	return 0;
}

/* ---- unstages ---- */

int disk_record_put_unstage(const struct node *n, const struct disk_record *r, struct err *err)
{
	char *path AUTO(free) = disk_record_path(n, r->volume_id, DISK_RECORD_UNSTAGE);
	char *text AUTO(free) = NULL;

	if (disk_record_text(n, DISK_RECORD_UNSTAGE, r, &text, err) == 0 &&
	    state_file_put(n, path, text, err) == 0)
		return 0;
	if (err->sys == ENOSPC || err->sys == EDQUOT)
		err_wrap(err, "make room on the disk of %s", n->o.plugin_dir);
	return err_wrap(err, "it stays staged: the record of its disk cannot be written");
}

int disk_record_remove_unstage(const struct node *n, const char *volume_id, struct err *err)
{
	char *path AUTO(free) = disk_record_path(n, volume_id, DISK_RECORD_UNSTAGE);

	return state_file_give_back(n, path, err);
}

/*
 * Reads the record in a file. Returns DISK_RECORD_ABSENT if it is not a record of this disk, or is
 * one of volume `but`.
 */
static int disk_record_read_other(const struct node *n, const char *path, const struct device *dev,
                                  const char *but, char **ret, struct err *err)
{
	char *text AUTO(free) = NULL, *volume AUTO(free) = NULL;
	struct device found;
	dev_t fs;
	int rc = state_file_read(path, &text, err);

	if (rc < 0 && !err->sys) /* the file is not a record */
		err_clear(err);
	if (rc)
		return err->code ? -1 : DISK_RECORD_ABSENT;
	volume = state_file_value(text, "volume");
	if (!volume || str_eq(volume, but))
		return DISK_RECORD_ABSENT;
	rc = disk_record_find(n, volume, DISK_RECORD_UNSTAGE, text, &found, &fs, err);
	if (rc || found.devno != dev->devno)
		return rc < 0 ? -1 : DISK_RECORD_ABSENT;
	*ret = TAKE(volume);
	return 0;
}

int disk_record_unstaging(const struct node *n, const struct device *dev, const char *but,
                          char **ret, struct err *err)
{
	char *dir AUTO(free) = state_file_folder(n, STATE_DIR_UNSTAGING);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	int rc = DISK_RECORD_ABSENT;

	if (!path_exists(dir))
		return DISK_RECORD_ABSENT;
	if (dir_list(dir, &names, err))
		return err_recode(err, ERR_UNAVAILABLE);
	for (size_t i = 0; i < names.n && rc == DISK_RECORD_ABSENT; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);

		rc = disk_record_read_other(n, path, dev, but, ret, err);
	}
	return rc;
}
