/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes, reads and removes the record of a disk that is being let go. Its first line is the disk's
 * number, by which it is found; the rest is compared as text with what would be written for the
 * disk that has this number now.
 */
#include "node/leaving.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

#define RECORD_MAX 4096

static char *record_dir(const struct node *n)
{
	return xasprintf("%s/unstaging", n->o.plugin_dir);
}

static char *record_path(const struct node *n, const char *volume_id)
{
	char *dir AUTO(free) = record_dir(n);
	char hash[33];

	fnv128_hex(volume_id, "", hash);
	return xasprintf("%s/%s", dir, hash);
}

static char *record_text(const struct node *n, const char *volume_id, const struct leaving *l)
{
	char *boot AUTO(free) = node_boot_id(n);

	return xasprintf("device=%u:%u filesystem=%u:%u\nvolume=%s\nuuid=%s\nnsid=%u\nboot=%s\n"
	                 "diskseq=%llu\n",
	                 major(l->dev.devno), minor(l->dev.devno), major(l->fs), minor(l->fs),
	                 volume_id, l->dev.uuid, l->dev.nsid, boot,
	                 (unsigned long long)l->dev.diskseq);
}

static int write_file(const char *path, const char *text, struct err *err)
{
	int fd AUTO(fd) = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t n = strlen(text);
	ssize_t done = fd < 0 ? -1 : write(fd, text, n);

	if (done < 0)
		return err_sys(err, errno, "write %s", path);
	return (size_t)done == n ? 0 : err_sys(err, ENOSPC, "write %s", path);
}

/* By way of another name: a record that can be seen is whole. */
static int replace_file(const char *path, const char *text, struct err *err)
{
	char *tmp AUTO(free) = xasprintf("%s.tmp", path);

	if (write_file(tmp, text, err)) {
		unlink(tmp);
		return -1;
	}
	return rename(tmp, path) < 0 ? err_sys(err, errno, "rename %s to %s", tmp, path) : 0;
}

int leaving_write(const struct node *n, const char *volume_id, const struct leaving *l,
                  struct err *err)
{
	char *dir AUTO(free) = record_dir(n);
	char *path AUTO(free) = record_path(n, volume_id);
	char *text AUTO(free) = record_text(n, volume_id, l);

	if (dir_make(dir, 0700, err) == 0 && replace_file(path, text, err) == 0)
		return 0;
	err_wrap(err, "it stays staged: the record of its disk cannot be written");
	return err_recode(err, ERR_UNAVAILABLE);
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
	expected = record_text(n, volume_id, ret);
	return str_eq(text, expected) ? 0 : LEAVING_NONE;
}

int leaving_read(const struct node *n, const char *volume_id, struct leaving *ret, struct err *err)
{
	char *path AUTO(free) = record_path(n, volume_id);
	char *text AUTO(free) = NULL;
	int rc = file_read(path, RECORD_MAX, &text, NULL, err);

	if (rc && err->code == ERR_NOT_FOUND) {
		err_clear(err);
		return LEAVING_NONE;
	}
	if (!rc)
		rc = find_disk(n, volume_id, text, ret, err);
	if (rc >= 0)
		return rc;
	err_wrap(err, "look for the disk that an earlier unstage has unmounted");
	return err_recode(err, ERR_UNAVAILABLE);
}

int leaving_remove(const struct node *n, const char *volume_id, struct err *err)
{
	char *path AUTO(free) = record_path(n, volume_id);

	return file_remove(path, err) ? err_recode(err, ERR_UNAVAILABLE) : 0;
}

static bool is_outdated(const char *path, const char *boot_line)
{
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (str_has_suffix(path, ".tmp"))
		return true;
	return file_read(path, RECORD_MAX, &text, NULL, &ignored) == 0 && !strstr(text, boot_line);
}

int leaving_remove_outdated(const struct node *n, struct str *did, struct err *err)
{
	char *dir AUTO(free) = record_dir(n), *boot AUTO(free) = node_boot_id(n);
	char *boot_line AUTO(free) = xasprintf("\nboot=%s\n", boot);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);

		if (!is_outdated(path, boot_line))
			continue;
		if (file_remove(path, err))
			return -1;
		str_addf(did, "%sunstaging record %s", did->len ? ", " : "", names.v[i]);
	}
	return 0;
}
