/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes sysfs by whole paths. No state, any thread. Knows no devices: callers know what
 * a missing attribute means.
 */
#include "node/device/sysfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/thread.h"

/* ENODEV and ENXIO: the object was removed while its file was open. */
bool sysfs_gone(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ENODEV || errnum == ENXIO;
}

/* After a failed read: SYSFS_ABSENT when the object has gone, else -1. */
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

	if (file_read_line(path, LIMIT_SYSFS_ATTR, ret, err))
		return gone_or_error(err);
	return 0;
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
		return err_set(err, ERR_PRECONDITION, "%s/%s: \"%.40s\" is no hexadecimal number",
		               dir, name, text);
	*ret = (uint32_t)strtoul(digits, &end, 16);
	return 0;
}

int sysfs_bytes(const char *dir, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);

	if (file_read(path, LIMIT_SYSFS_ATTR, ret, ret_len, err))
		return gone_or_error(err);
	return 0;
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

int sysfs_write(const struct sysfs_writer *w, const char *path, const char *text)
{
	struct err err = ERR_INIT;

	thread_rest(); /* a bind or unbind may hang */
	if (w)
		return w->write(w->arg, path, text);
	if (file_write(path, text, &err) == 0)
		return 0;
	return err.sys ? err.sys : EIO;
}
