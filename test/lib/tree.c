/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks recorded trees for tests and edits them. Owns the temporary directory of each tree;
 * never writes outside it. Not for the driver: it fails the test instead of returning errors.
 */
#include "test/lib/tree.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "test/lib/wait.h"

#define MANIFEST_MAX (4 * 1024 * 1024)

/* ---- directories of failed tests ---- */

/* Check forks for each test, and a failing one ends without cleanup, so the parent cleans up. */
static pid_t program;

__attribute__((constructor)) static void remember_program(void)
{
	program = getpid();
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_all(const char *whole)
{
	return nftw(whole, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Trees have hundreds of files: a tmpfs is faster, but it must permit device nodes. */
static const char *base_dir(void)
{
	struct statvfs vfs;

	if (access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &vfs) == 0 &&
	    !(vfs.f_flag & ST_NODEV))
		return "/dev/shm";
	return "/tmp";
}

__attribute__((destructor)) static void sweep(void)
{
	char *pattern AUTO(free) = NULL;
	glob_t left = { 0 };

	if (getpid() != program)
		return;
	pattern = xasprintf("%s/tree-%d-*", base_dir(), program);
	if (glob(pattern, 0, NULL, &left) == 0)
		for (size_t i = 0; i < left.gl_pathc; i++)
			remove_all(left.gl_pathv[i]);
	globfree(&left);
}

/* ---- base64 ---- */

static int base64_digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static size_t base64_decode(const char *text, unsigned char *ret)
{
	unsigned bits = 0, count = 0;
	size_t n = 0;

	for (; *text && *text != '='; text++) {
		int digit = base64_digit(*text);

		ck_assert_msg(digit >= 0, "bad base64 in a manifest");
		bits = bits << 6 | (unsigned)digit;
		count += 6;
		if (count >= 8) {
			count -= 8;
			ret[n++] = (unsigned char)(bits >> count);
		}
	}
	return n;
}

/* ---- editing ---- */

char *tree_path(const struct tree *t, const char *path)
{
	ck_assert_msg(*path == '/' && !strstr(path, "/../"), "%s leaves the tree", path);
	return xasprintf("%s%s", t->root, path);
}

static char *path_with_parents(const struct tree *t, const char *path)
{
	char *whole = tree_path(t, path);
	char *parent AUTO(free) = xstrndup(whole, (size_t)(strrchr(whole, '/') - whole));
	struct err err = ERR_INIT;

	/* Usually an earlier entry has created the parent already. */
	if (access(parent, F_OK) != 0)
		ck_assert_msg(dir_make(parent, 0755, &err) == 0, "%s", err.msg);
	return whole;
}

/* Atomically, as sysfs and procfs show a value: a concurrent reader sees the old or the new one. */
void tree_write_bytes(const struct tree *t, const char *path, const void *bytes, size_t n)
{
	char *whole AUTO(free) = path_with_parents(t, path);
	char *real AUTO(free) = realpath(whole, NULL);
	char *fresh AUTO(free) = xasprintf("%s/.fresh-%d", t->root, (int)gettid());
	FILE *f = fopen(fresh, "w");

	ck_assert_msg(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0 &&
	                      rename(fresh, real ? real : whole) == 0,
	              "write %s: errno %d", whole, errno);
}

void tree_write(const struct tree *t, const char *path, const char *text)
{
	tree_write_bytes(t, path, text, strlen(text));
}

void tree_link(const struct tree *t, const char *path, const char *target)
{
	char *whole AUTO(free) = path_with_parents(t, path);

	(void)unlink(whole);
	ck_assert_msg(symlink(target, whole) == 0, "link %s: errno %d", whole, errno);
}

void tree_fifo(const struct tree *t, const char *path)
{
	char *whole AUTO(free) = path_with_parents(t, path);

	(void)unlink(whole);
	ck_assert_msg(mkfifo(whole, 0644) == 0, "FIFO %s: errno %d", whole, errno);
}

void tree_answer(const struct tree *t, const char *path, const char *text)
{
	char *whole AUTO(free) = tree_path(t, path);
	int fd = open(whole, O_RDWR | O_CLOEXEC), unread = 0;

	ck_assert_msg(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text),
	              "answer %s: errno %d", whole, errno);
	/* A reader that opens the FIFO later would find it empty. A writer adds its own text. */
	WAIT_UNTIL(ioctl(fd, FIONREAD, &unread) == 0 && unread != (int)strlen(text));
	close(fd);
}

void tree_mkdir(const struct tree *t, const char *path)
{
	char *whole AUTO(free) = tree_path(t, path);
	struct err err = ERR_INIT;

	ck_assert_msg(dir_make(whole, 0755, &err) == 0, "%s", err.msg);
}

void tree_remove(const struct tree *t, const char *path)
{
	char *whole AUTO(free) = tree_path(t, path);

	ck_assert_msg(remove_all(whole) == 0, "remove %s: errno %d", whole, errno);
}

void tree_rename(const struct tree *t, const char *from, const char *to)
{
	char *old AUTO(free) = tree_path(t, from);
	char *new AUTO(free) = path_with_parents(t, to);

	ck_assert_msg(rename(old, new) == 0, "rename %s to %s: errno %d", old, new, errno);
}

char *tree_read(const struct tree *t, const char *path)
{
	char *whole AUTO(free) = tree_path(t, path);
	struct err err = ERR_INIT;
	char *text;

	return file_read_line(whole, MANIFEST_MAX, &text, &err) == 0 ? text : NULL;
}

/* ---- unpacking ---- */

static void unpack_entry(const struct tree *t, const struct json *entry)
{
	const char *path = json_str(entry, "p"), *text;

	ck_assert_ptr_nonnull(path);
	if ((text = json_str(entry, "c"))) {
		tree_write(t, path, text);
	} else if ((text = json_str(entry, "l"))) {
		tree_link(t, path, text);
	} else if ((text = json_str(entry, "b64"))) {
		unsigned char *bytes AUTO(free) = xmalloc(strlen(text) + 1);

		tree_write_bytes(t, path, bytes, base64_decode(text, bytes));
	} else {
		tree_mkdir(t, path);
	}
}

static void unpack_manifest(const struct tree *t, const char *name)
{
	char *path AUTO(free) = xasprintf("test/data/sysfs/%s.manifest.jsonl", name);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	char *line, *end;

	ck_assert_msg(file_read(path, MANIFEST_MAX, &text, NULL, &err) == 0, "%s", err.msg);
	for (line = text; *line; line = end + 1) {
		struct json *entry AUTO(json_free) = NULL;

		end = strchr(line, '\n');
		ck_assert_msg(end != NULL, "%s: no newline at its end", path);
		ck_assert_msg(json_parse(path, line, (size_t)(end - line), &entry, &err) == 0, "%s",
		              err.msg);
		unpack_entry(t, entry);
	}
}

void tree_unpack(struct tree *t, const char *name)
{
	snprintf(t->root, sizeof(t->root), "%s/tree-%d-XXXXXX", base_dir(), program);
	ck_assert_ptr_nonnull(mkdtemp(t->root));
	snprintf(t->sysfs, sizeof(t->sysfs), "%s/sys", t->root);
	snprintf(t->dev, sizeof(t->dev), "%s/dev", t->root);
	if (name)
		unpack_manifest(t, name);
	tree_mkdir(t, "/sys");
	tree_mkdir(t, "/dev");
}

void tree_clear(struct tree *t)
{
	if (*t->root)
		remove_all(t->root);
	*t->root = '\0';
}
