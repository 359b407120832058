/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, writes, removes and lists records. A file is checked through the descriptor from which it
 * is read, so a symbolic link is not followed, and a pipe does not block a call. Does not interpret
 * records.
 *
 * A spare file is renamed, written in place and renamed again. This needs no free block, so it
 * works on a full disk: the file already has its block, and the directories already have room for
 * these names. A file without a block is not used as a spare, because on a full disk it could not
 * be written.
 */
#include "node/work/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

#define STATE_FILE_MAX 4096
#define SPARE_SIZE 4096

char *state_file_folder(const struct node *n, const char *folder)
{
	return xasprintf("%s/%s", n->o.plugin_dir, folder);
}

char *state_file_path(const struct node *n, const char *folder, const char *volume_id,
                      const char *suffix)
{
	char hash[33];

	fnv128_hex(volume_id, "", hash);
	return xasprintf("%s/%s/%s%s", n->o.plugin_dir, folder, hash, suffix);
}

/* ---- reading ---- */

/* Opens a record; err->sys keeps ENOENT. */
static int state_file_open(const char *path, struct err *err)
{
	int fd AUTO(fd) = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ELOOP)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s is a symbolic link, not a record: remove it", path);
	if (fd < 0)
		return err_sys(err, errno, "open %s", path);
	if (fstat(fd, &st))
		return err_sys(err, errno, "stat %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_UNAVAILABLE,
		               "%s is not a file, so not a record: remove "
		               "it",
		               path);
	return TAKE_FD(fd);
}

static int state_file_read_text(const char *path, char **ret, struct err *err)
{
	char *text AUTO(free) = xcalloc(1, STATE_FILE_MAX + 2);
	int fd AUTO(fd) = state_file_open(path, err);
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -1;
	while (len <= STATE_FILE_MAX && (n = read(fd, text + len, STATE_FILE_MAX + 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		return err_sys(err, errno, "read %s", path);
	if (len > STATE_FILE_MAX)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s is longer than any record (%d bytes): remove it", path,
		               STATE_FILE_MAX);
	*ret = TAKE(text);
	return 0;
}

int state_file_read(const char *path, char **ret, struct err *err)
{
	if (state_file_read_text(path, ret, err) == 0)
		return 0;
	if (err->sys != ENOENT)
		return err_recode(err, ERR_UNAVAILABLE);
	err_clear(err);
	return STATE_FILE_NONE;
}

bool state_file_has_line(const char *text, const char *key, const char *value)
{
	char *line AUTO(free) = xasprintf("%s=%s\n", key, value);
	const char *at = text;

	while ((at = strstr(at, line)) && at != text && at[-1] != '\n')
		at++;
	return at != NULL;
}

char *state_file_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (; *text; text = strchrnul(text, '\n'), text += *text == '\n')
		if (strncmp(text, key, n) == 0 && text[n] == '=')
			return xstrndup(text + n + 1, strcspn(text + n + 1, "\n"));
	return NULL;
}

/* ---- writing ---- */

static int make_dir_of(const char *path, struct err *err)
{
	char *dir AUTO(free) = xstrdup(path);

	*strrchr(dir, '/') = '\0';
	return dir_make(dir, 0700, err);
}

int state_file_write_synced(const char *path, const char *text, struct err *err)
{
	if (make_dir_of(path, err) || file_write_synced(path, text, strlen(text), 0600, err))
		return err_recode(err, ERR_UNAVAILABLE);
	return 0;
}

int state_file_remove(const char *path, struct err *err)
{
	return file_remove(path, err) ? err_recode(err, ERR_UNAVAILABLE) : 0;
}

static int sync_dir(const char *dir, struct err *err)
{
	if (dir_sync(dir, err) == 0)
		return 0;
	if (err->sys != ENOENT)
		return err_recode(err, ERR_UNAVAILABLE);
	err_clear(err);
	return 0;
}

int state_file_remove_synced(const char *path, struct err *err)
{
	char *dir AUTO(free) = xstrdup(path);
	bool was_there = path_exists(path);

	*strrchr(dir, '/') = '\0';
	return state_file_remove(path, err) || (was_there && sync_dir(dir, err)) ? -1 : 0;
}

int state_file_sync(const struct node *n, const char *folder, struct err *err)
{
	char *dir AUTO(free) = state_file_folder(n, folder);

	return sync_dir(dir, err);
}

/*
 * Turns off copy-on-write, because btrfs would write each change to a new block, which is not
 * available on a full disk. Other filesystems do not have this flag.
 */
static void keep_in_place(int fd)
{
	int flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_NOCOW_FL;
		IGNORE_RESULT(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	}
}

/* Overwrites the file from its start, in its allocated blocks, so that a full disk does not matter. */
static int state_file_overwrite(const char *path, int flags, const char *bytes, size_t n,
                                struct err *err)
{
	int fd AUTO(fd) = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);
	struct stat st;
	ssize_t done;

	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, errno, "write %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_UNAVAILABLE,
		               "%s is not a file, so not a record: remove "
		               "it",
		               path);
	if (st.st_size == 0)
		keep_in_place(fd);
	done = write(fd, bytes, n);
	if (done != (ssize_t)n)
		return err_sys(err, done < 0 ? errno : ENOSPC, "write %s", path);
	if (ftruncate(fd, (off_t)n) || ((flags & O_EXCL) && fsync(fd)))
		return err_sys(err, errno, "write %s", path);
	return 0;
}

/* ---- spare files ---- */

static char *spare_path(const struct node *n, unsigned i)
{
	return xasprintf("%s/spare/%u", n->o.plugin_dir, i);
}

static bool is_regular(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Returns true if the file has a block and only one name. A driver killed in move_to_free() leaves
 * a spare file that is still a record.
 */
static bool has_block(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_blocks > 0 && st.st_nlink == 1;
}

/*
 * Creates a spare file. When this returns, its block is allocated on the disk, not just reserved.
 */
static int make_file(const char *path, struct err *err)
{
	static const char bytes[SPARE_SIZE];

	return state_file_overwrite(path, O_CREAT | O_EXCL, bytes, sizeof(bytes), err);
}

static int state_file_make_spare(const struct node *n, unsigned i, struct err *err)
{
	char *path AUTO(free) = spare_path(n, i);

	if (has_block(path) || make_file(path, err) == 0)
		return 0;
	if (unlink(path) < 0 || err->sys != EEXIST)
		return -1;
	err_clear(err);
	if (make_file(path, err) == 0)
		return 0;
	unlink(path);
	return -1;
}

int state_file_make_spares(const struct node *n, struct err *err)
{
	char *dir AUTO(free) = state_file_folder(n, "spare");
	char *unstaging AUTO(free) = state_file_folder(n, STATE_DIR_UNSTAGING);
	char *jobs AUTO(free) = state_file_folder(n, STATE_DIR_JOBS);
	struct err first = ERR_INIT;

	if (dir_make(dir, 0700, err) || dir_make(unstaging, 0700, err) || dir_make(jobs, 0700, err))
		return -1;
	for (unsigned i = 0; i < STATE_FILE_SPARES; i++) {
		struct err failed = ERR_INIT;

		if (state_file_make_spare(n, i, &failed) && !first.code)
			first = failed;
	}
	if (!first.code)
		return 0;
	*err = first;
	return -1;
}

/* Takes a spare file by a rename, after which no other call finds it. */
static bool take_spare(const struct node *n, const char *as)
{
	for (unsigned i = 0; i < STATE_FILE_SPARES; i++) {
		char *path AUTO(free) = spare_path(n, i);

		if (has_block(path) && rename(path, as) == 0)
			return true;
	}
	return false;
}

/*
 * Renames a file; EEXIST: `to` exists. Uses link(2) on filesystems whose rename cannot report that
 * (NFS, older ZFS).
 */
static int move_to_free(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL || link(from, to) < 0)
		return -1;
	if (unlink(from) == 0)
		return 0;
	unlink(to);
	errno = EIO;
	return -1;
}

int state_file_give_back(const struct node *n, const char *path, struct err *err)
{
	for (unsigned i = 0; i < STATE_FILE_SPARES && has_block(path); i++) {
		char *spare AUTO(free) = spare_path(n, i);

		if (move_to_free(path, spare) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return state_file_remove(path, err);
}

static int state_file_replace(const struct node *n, const char *path, const char *text,
                              struct err *err)
{
	char *tmp AUTO(free) = xasprintf("%s.tmp", path);
	struct err ignored = ERR_INIT;
	int rc;

	if (make_dir_of(path, err))
		return -1;
	rc = state_file_overwrite(tmp, take_spare(n, tmp) ? 0 : O_CREAT, text, strlen(text), err);
	if (!rc && is_regular(path) &&
	    renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
		/* the previous record becomes a spare */
		IGNORE_RESULT(state_file_give_back(n, tmp, &ignored));
	else if (!rc && rename(tmp, path) < 0)
		rc = err_sys(err, errno, "rename %s to %s", tmp, path);
	if (rc)
		IGNORE_RESULT(state_file_give_back(n, tmp, &ignored));
	return rc;
}

int state_file_put(const struct node *n, const char *path, const char *text, struct err *err)
{
	return state_file_replace(n, path, text, err) ? err_recode(err, ERR_UNAVAILABLE) : 0;
}

/* ---- listing ---- */

/* Removes a file. A file of an unstage becomes a spare file again, because it was made from one. */
static int tidy_away(const struct node *n, const char *folder, const char *path, struct err *err)
{
	return str_eq(folder, STATE_DIR_UNSTAGING) ? state_file_give_back(n, path, err)
	                                           : state_file_remove(path, err);
}

int state_file_tidy(const struct node *n, const char *folder,
                    bool (*is_outdated)(void *arg, const char *name, const char *text), void *arg,
                    struct str *did, struct err *err)
{
	char *dir AUTO(free) = state_file_folder(n, folder);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err first = ERR_INIT;

	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]),
			   *text AUTO(free) = NULL;
		struct err failed = ERR_INIT;

		if (!str_has_suffix(names.v[i], ".tmp") &&
		    (state_file_read(path, &text, &failed) || !is_outdated(arg, names.v[i], text)))
			continue;
		if (tidy_away(n, folder, path, &failed) == 0)
			str_addf(did, "%s%s record %s", did->len ? ", " : "", folder, names.v[i]);
		else if (!first.code)
			first = failed;
	}
	if (!first.code)
		return 0;
	*err = first;
	return -1;
}
