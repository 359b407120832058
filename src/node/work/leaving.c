/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes, reads and removes the record of a disk that is being let go. Its first line is the disk's
 * number, by which it is found; the rest is compared as text with what would be written for the
 * disk that has this number now.
 */
#include "node/work/leaving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/work/state_file.h"

static char *path_of(const struct node *n, const char *volume_id)
{
	return state_file_path(n, STATE_DIR_UNSTAGING, volume_id, "");
}

static int record_text(const struct node *n, const char *volume_id, const struct leaving *l,
                       char **ret, struct err *err)
{
	char boot[BOOT_ID_SIZE];

	if (node_boot_id(n, boot, err))
		return -1;
	*ret = xasprintf("device=%u:%u filesystem=%u:%u\nvolume=%s\nuuid=%s\nnsid=%u\nboot=%s\n"
	                 "diskseq=%llu\n",
	                 major(l->dev.devno), minor(l->dev.devno), major(l->fs), minor(l->fs),
	                 volume_id, l->dev.uuid, l->dev.nsid, boot,
	                 (unsigned long long)l->dev.diskseq);
	return 0;
}

int leaving_write(const struct node *n, const char *volume_id, const struct leaving *l,
                  struct err *err)
{
	char *path AUTO(free) = path_of(n, volume_id);
	char *text AUTO(free) = NULL;

	if (record_text(n, volume_id, l, &text, err) == 0 &&
	    state_file_put(n, path, text, err) == 0)
		return 0;
	if (err->sys == ENOSPC || err->sys == EDQUOT)
		err_wrap(err, "make room on the disk of %s", n->o.plugin_dir);
	return err_wrap(err, "it stays staged: the record of its disk cannot be written");
}

/* Is the disk that has the record's number now the one that it is about? */
static int find_disk(const struct node *n, const char *volume_id, const char *text,
                     struct leaving *ret, struct err *err)
{
	char *expected AUTO(free) = NULL;
	unsigned disk[2], fs[2];
	int rc;

	if (sscanf(text, "device=%u:%u filesystem=%u:%u\n", &disk[0], &disk[1], &fs[0], &fs[1]) !=
	    4)
		return LEAVING_NONE;
	ret->fs = makedev(fs[0], fs[1]);
	rc = device_by_number(&n->o.world, makedev(disk[0], disk[1]), &ret->dev, err);
	if (rc < 0)
		return -1;
	if (rc == DEVICE_ABSENT)
		return LEAVING_NONE;
	if (record_text(n, volume_id, ret, &expected, err))
		return -1;
	return str_eq(text, expected) ? 0 : LEAVING_NONE;
}

int leaving_read(const struct node *n, const char *volume_id, struct leaving *ret, struct err *err)
{
	char *path AUTO(free) = path_of(n, volume_id);
	char *text AUTO(free) = NULL;
	int rc = state_file_read(path, &text, err);

	if (rc == STATE_FILE_NONE)
		return LEAVING_NONE;
	if (!rc)
		rc = find_disk(n, volume_id, text, ret, err);
	if (rc >= 0)
		return rc;
	err_wrap(err, "look for the disk that an earlier unstage has unmounted");
	return err_recode(err, ERR_UNAVAILABLE);
}

/* LEAVING_NONE: the file is not a record of this disk, or is one of volume `but`. */
static int read_one(const struct node *n, const char *path, const struct device *dev,
                    const char *but, char **ret, struct err *err)
{
	char *text AUTO(free) = NULL, *volume AUTO(free) = NULL;
	struct leaving l;
	int rc = state_file_read(path, &text, err);

	if (rc < 0 && !err->sys) /* it is not a record */
		err_clear(err);
	if (rc)
		return err->code ? -1 : LEAVING_NONE;
	volume = state_file_value(text, "volume");
	if (!volume || str_eq(volume, but))
		return LEAVING_NONE;
	rc = find_disk(n, volume, text, &l, err);
	if (rc || l.dev.devno != dev->devno)
		return rc < 0 ? -1 : LEAVING_NONE;
	*ret = TAKE(volume);
	return 0;
}

int leaving_volume(const struct node *n, const struct device *dev, const char *but, char **ret,
                   struct err *err)
{
	char *dir AUTO(free) = state_file_folder(n, STATE_DIR_UNSTAGING);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	int rc = LEAVING_NONE;

	if (!path_exists(dir))
		return LEAVING_NONE;
	if (dir_list(dir, &names, err))
		return err_recode(err, ERR_UNAVAILABLE);
	for (size_t i = 0; i < names.n && rc == LEAVING_NONE; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);

		rc = read_one(n, path, dev, but, ret, err);
	}
	return rc;
}

int leaving_remove(const struct node *n, const char *volume_id, struct err *err)
{
	char *path AUTO(free) = path_of(n, volume_id);

	return state_file_give_back(n, path, err);
}

static bool is_outdated(void *boot, const char *name, const char *text)
{
	(void)name;
	return boot && !state_file_has_line(text, "boot", boot);
}

int leaving_remove_outdated(const struct node *n, struct str *did, struct err *err)
{
	struct err ignored = ERR_INIT;
	char boot[BOOT_ID_SIZE];
	bool known = node_boot_id(n, boot, &ignored) == 0;

	return state_file_tidy(n, STATE_DIR_UNSTAGING, is_outdated, known ? boot : NULL, did, err);
}
