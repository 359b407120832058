/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel about one mount option by a filesystem context that never becomes a filesystem:
 * such a context takes options one by one, refuses the wrong one, and keeps a text about it
 * (fsopen(2), fsconfig(2)). Owns nothing. Does not judge options by itself.
 */
#include "node/mount/mount_option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"

/* A message of a context begins with a letter for its level and a blank: "e xfs: Unknown ...". */
#define LEVEL_LEN 2

static void add_messages(int fd, struct str *why)
{
	char text[300];
	ssize_t n;

	while ((n = read(fd, text, sizeof(text))) > LEVEL_LEN) {
		n -= text[n - 1] == '\n';
		str_addf(why, "%s%.*s", why->len ? "; " : "", (int)(n - LEVEL_LEN),
		         text + LEVEL_LEN);
	}
}

bool mount_option_is_refused(const char *fs_type, const char *option, struct str *why)
{
	int fd AUTO(fd) = fsopen(fs_type, FSOPEN_CLOEXEC);
	char *name AUTO(free) = xstrdup(option), *value = strchr(name, '=');
	int rc;

	if (fd < 0)
		return false;
	if (value)
		*value++ = '\0';
	rc = fsconfig(fd, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, name, value, 0);
	/* EPERM, ENOSYS: what container runtimes answer for calls that they do not know. */
	if (rc == 0 || errno == EPERM || errno == ENOSYS)
		return false;
	if (why)
		add_messages(fd, why);
	return true;
}
