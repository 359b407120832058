/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes sysfs by full paths. Callers decide what a missing attribute means. Owns the
 * list of accesses in progress; each entry is on the stack of its thread.
 */
#include "node/device/sysfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/file.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/thread.h"

/* ---- accesses in progress ---- */

struct access {
	struct access *next;
	const char *path, *text; /* text: the text to write; NULL: a read */
	int64_t since;           /* monotonic ns */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct access *accesses; /* protected by the lock */

static void access_begin(struct access *a, const char *path, const char *text)
{
	*a = (struct access) { .path = path, .text = text, .since = monotonic_ns() };
	WITH_LOCK(&lock);
	a->next = accesses;
	accesses = a;
}

static void access_end(const struct access *a)
{
	struct access **p = &accesses;

	WITH_LOCK(&lock);
	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
}

size_t sysfs_hung(int64_t ms, struct strs *ret)
{
	int64_t now = monotonic_ns();
	size_t n = 0;

	WITH_LOCK(&lock);
	for (const struct access *a = accesses; a; a = a->next) {
		/* For a bind, the text names the function, not the path. */
		bool names_function = a->text && strchr(a->text, ':');

		if (now - a->since < ms * INT64_C(1000000))
			continue;
		n++;
		if (ret)
			strs_addf(ret, "%s%s%s for %.0f s", a->path, names_function ? " of " : "",
			          names_function ? a->text : "", (double)(now - a->since) / 1e9);
	}
	return n;
}

/* ---- one access ---- */

/* ENODEV and ENXIO: the object was removed while its file was open. */
bool sysfs_gone(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ENODEV || errnum == ENXIO;
}

/* Called after a failed read. Returns SYSFS_ABSENT if the object was removed, otherwise -1. */
static int gone_or_error(struct err *err)
{
	if (!sysfs_gone(err->sys))
		return -1;
	err_clear(err);
	return SYSFS_ABSENT;
}

int sysfs_attr(const char *dir, const char *name, char **ret, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	struct access a;
	int rc;

	access_begin(&a, path, NULL);
	rc = file_read_line(path, LIMIT_SYSFS_ATTR, ret, err);
	access_end(&a);
	return rc ? gone_or_error(err) : 0;
}

int sysfs_attr_u64(const char *dir, const char *name, uint64_t *ret, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	char *text AUTO(free) = NULL;
	int rc = sysfs_attr(dir, name, &text, err);

	if (rc)
		return rc;
	if (parse_u64(path, text, ret, err))
		return err_recode(err, ERR_PRECONDITION);
	return 0;
}

int sysfs_attr_hex(const char *dir, const char *name, uint32_t *ret, struct err *err)
{
	char *text AUTO(free) = NULL;
	const char *digits;
	char *end;
	int rc = sysfs_attr(dir, name, &text, err);

	if (rc)
		return rc;
	digits = str_has_prefix(text, "0x") ? text + 2 : text;
	if (!*digits || strlen(digits) > 8 ||
	    strspn(digits, "0123456789abcdefABCDEF") != strlen(digits))
		return err_set(err, ERR_PRECONDITION,
		               "%s/%s: \"%.40s\" is not a hexadecimal "
		               "number",
		               dir, name, text);
	*ret = (uint32_t)strtoul(digits, &end, 16);
	return 0;
}

int sysfs_bytes(const char *dir, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	struct access a;
	int rc;

	access_begin(&a, path, NULL);
	rc = file_read(path, LIMIT_SYSFS_ATTR, ret, ret_len, err);
	access_end(&a);
	return rc ? gone_or_error(err) : 0;
}

int sysfs_link(const char *dir, const char *name, char **ret, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	int rc = link_basename(path, ret, err);

	if (rc == LINK_ABSENT)
		return SYSFS_ABSENT;
	return rc < 0 ? gone_or_error(err) : 0;
}

int sysfs_list(const char *dir, struct strs *ret, struct err *err)
{
	if (dir_list(dir, ret, err))
		return gone_or_error(err);
	return 0;
}

static int write_attr(const char *path, const char *text)
{
	struct err err = ERR_INIT;

	if (file_write(path, text, &err) == 0)
		return 0;
	return err.sys ? err.sys : EIO;
}

int sysfs_write(const struct sysfs_writer *w, const char *path, const char *text)
{
	struct access a;
	int e;

	thread_rest(); /* a write to bind or unbind may hang */
	access_begin(&a, path, text);
	e = w ? w->write(w->arg, path, text) : write_attr(path, text);
	access_end(&a);
	return e;
}
