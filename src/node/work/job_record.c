/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a record is lines of key=value, those that never change in front. Does not decide
 * what a record allows: format.c and check.c.
 */
#include "node/work/job_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/work/state_file.h"

static const char *const suffixes[] = {
	[JOB_RECORD_MKFS] = "",
	[JOB_RECORD_E2FSCK] = ".e2fsck",
};

char *job_record_path(const struct node *n, const char *volume_id, enum job_record_kind kind)
{
	return state_file_path(n, STATE_DIR_JOBS, volume_id, suffixes[kind]);
}

/* The lines that must be the same in any case. */
static char *identity(const struct job_record *r)
{
	return xasprintf("volume=%s\nuuid=%s\nnsid=%u\nsize=%llu\nfilesystem=%s\n", r->volume_id,
	                 r->dev->uuid, r->dev->nsid, (unsigned long long)r->dev->size, r->fs_type);
}

/* Where to find the disk until the next boot. Not compared: the lines below say more. */
static char *number(const struct job_record *r)
{
	return xasprintf("device=%u:%u\n", major(r->dev->devno), minor(r->dev->devno));
}

/* The lines that say in which boot and as which of its disks. */
static int this_boot(const struct node *n, const struct job_record *r, char **ret, struct err *err)
{
	char boot[BOOT_ID_SIZE];

	if (node_boot_id(n, boot, err))
		return -1;
	*ret = xasprintf("boot=%s\ndiskseq=%llu\n", boot, (unsigned long long)r->diskseq);
	return 0;
}

int job_record_text(const struct node *n, const struct job_record *r, char **ret, struct err *err)
{
	char *first AUTO(free) = identity(r);
	char *disk AUTO(free) = number(r);
	char *boot AUTO(free) = NULL;

	if (this_boot(n, r, &boot, err))
		return -1;
	*ret = xasprintf("%s%s%sattachment=%s\n", first, disk, boot,
	                 r->attachment ? r->attachment : "");
	return 0;
}

/*
 * Two UIDs decide alone: detached and attached again within a boot, a namespace that the host never
 * lost keeps its number. Where one is unknown, the number does. `text` begins behind the identity,
 * `boot` is this_boot().
 */
static bool is_same_attachment(const struct job_record *r, const char *boot, const char *text)
{
	static const char unknown[] = "\nattachment=\n";
	char *attachment AUTO(free) =
		xasprintf("\nattachment=%s\n", r->attachment ? r->attachment : "");

	if (str_has_prefix(text, "device="))
		text = strchrnul(text, '\n') + strspn(strchrnul(text, '\n'), "\n");
	if (!str_empty(r->attachment) && str_has_suffix(text, attachment))
		return true;
	if (!str_empty(r->attachment) && !str_has_suffix(text, unknown))
		return false; /* it is another one, or cut */
	return r->diskseq && str_has_prefix(text, boot) &&
	       str_has_prefix(text + strlen(boot), "attachment=") && str_has_suffix(text, "\n");
}

int job_record_matches(const struct node *n, enum job_record_kind kind, const struct job_record *r,
                       struct err *err)
{
	char *path AUTO(free) = job_record_path(n, r->volume_id, kind);
	char *first AUTO(free) = identity(r);
	char *text AUTO(free) = NULL, *boot AUTO(free) = NULL;
	int rc = state_file_read(path, &text, err);

	if (rc)
		return rc < 0 ? -1 : JOB_RECORD_ABSENT;
	if (this_boot(n, r, &boot, err))
		return -1;
	return str_has_prefix(text, first) && is_same_attachment(r, boot, text + strlen(first))
	               ? 0
	               : JOB_RECORD_ABSENT;
}

/* Is the disk that has the record's number now the one that it is about? */
static bool is_about(const char *boot, const char *text, const struct device *dev)
{
	char nsid[16], diskseq[24];

	snprintf(nsid, sizeof(nsid), "%u", dev->nsid);
	snprintf(diskseq, sizeof(diskseq), "%llu", (unsigned long long)dev->diskseq);
	return state_file_has_line(text, "boot", boot) &&
	       state_file_has_line(text, "uuid", dev->uuid) &&
	       state_file_has_line(text, "nsid", nsid) &&
	       state_file_has_line(text, "diskseq", diskseq);
}

int job_record_disk(const struct node *n, const char *volume_id, enum job_record_kind kind,
                    struct device *ret, struct err *err)
{
	char *path AUTO(free) = job_record_path(n, volume_id, kind);
	char *text AUTO(free) = NULL;
	char boot[BOOT_ID_SIZE];
	const char *line;
	unsigned disk[2];
	int rc = state_file_read(path, &text, err);

	if (rc)
		return rc < 0 ? -1 : JOB_RECORD_ABSENT;
	if (node_boot_id(n, boot, err))
		return -1;
	line = strstr(text, "\ndevice=");
	if (!line || sscanf(line, "\ndevice=%u:%u\n", &disk[0], &disk[1]) != 2)
		return JOB_RECORD_ABSENT;
	rc = device_by_number(&n->o.world, makedev(disk[0], disk[1]), ret, err);
	if (rc)
		return rc < 0 ? -1 : JOB_RECORD_ABSENT;
	return is_about(boot, text, ret) ? 0 : JOB_RECORD_ABSENT;
}

/* May a later stage of any volume take this record for one of the disk? */
static bool may_match(const char *text, const char *boot, const struct device *dev,
                      uint64_t diskseq)
{
	char *uuid AUTO(free) = state_file_value(text, "uuid"), *seq AUTO(free) = NULL;
	char nsid[16], size[24], now[24];

	if (!str_empty(uuid) && *dev->uuid)
		return str_eq(uuid, dev->uuid);
	snprintf(nsid, sizeof(nsid), "%u", dev->nsid);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)dev->size);
	if (!state_file_has_line(text, "nsid", nsid) || !state_file_has_line(text, "size", size))
		return false;
	seq = state_file_value(text, "diskseq");
	if (!diskseq || str_empty(seq) || str_eq(seq, "0") ||
	    !state_file_has_line(text, "boot", boot))
		return true; /* nothing tells the two disks apart */
	snprintf(now, sizeof(now), "%llu", (unsigned long long)diskseq);
	return str_eq(seq, now);
}

/* A disk that is handed out. */
struct handed_out {
	const struct device *dev;
	uint64_t diskseq;
	char boot[BOOT_ID_SIZE];
	const char *own[ARRAY_LEN(suffixes)]; /* names of the volume's own records */
	bool read_only;
};

enum { RECORD_STAYS = 1 };
/* 0: the record is to be removed. A file that is not a record stays: it never matches a disk. */
static int judge(const struct handed_out *h, const char *name, const char *path, struct err *err)
{
	char *text AUTO(free) = NULL;
	int rc;

	/* A record of an interrupted check stays true while the filesystem is not written. */
	if (h->read_only && str_has_suffix(name, suffixes[JOB_RECORD_E2FSCK]))
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
		int rc = judge(h, names.v[i], path, err);

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

int job_records_end(struct node *n, const char *volume_id, const struct device *dev,
                    uint64_t diskseq, bool read_only, struct err *err)
{
	struct handed_out h = { .dev = dev, .diskseq = diskseq, .read_only = read_only };
	char *mkfs AUTO(free) = job_record_path(n, volume_id, JOB_RECORD_MKFS);
	char *e2fsck AUTO(free) = job_record_path(n, volume_id, JOB_RECORD_E2FSCK);
	/* A driver that was killed may have removed one without syncing. */
	bool ended = !atomic_load(&n->records_synced);
	struct err ignored = ERR_INIT;

	h.own[JOB_RECORD_MKFS] = strrchr(mkfs, '/') + 1;
	h.own[JOB_RECORD_E2FSCK] = strrchr(e2fsck, '/') + 1;
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

bool job_record_is_outdated(const struct node *n, const char *text)
{
	const char *attachment = strstr(text, "\nattachment=");
	struct err ignored = ERR_INIT;
	char boot[BOOT_ID_SIZE];

	if (node_boot_id(n, boot, &ignored) || state_file_has_line(text, "boot", boot))
		return false;
	return !attachment || !str_has_suffix(text, "\n") ||
	       attachment[strlen("\nattachment=")] == '\n';
}

char *job_record_describe(const char *name, const char *text)
{
	static const char volume[] = "volume=", fs_type[] = "\nfilesystem=";
	const char *type = strstr(text, fs_type);

	if (!str_has_prefix(text, volume) || !type)
		return NULL;
	type += strlen(fs_type);
	return xasprintf("%s%.*s of volume %.*s",
	                 str_has_suffix(name, suffixes[JOB_RECORD_E2FSCK]) ? "check of " : "mkfs.",
	                 (int)strcspn(type, "\n"), type, (int)strcspn(text + strlen(volume), "\n"),
	                 text + strlen(volume));
}
