/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests one mount option in a filesystem context that is never mounted. Such a context accepts
 * options one by one, rejects the wrong one, and has a message about it (fsopen(2), fsconfig(2)).
 * Owns nothing. Has no rules about options itself.
 */
#include "node/mount/mount_option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"

/* A message of a context begins with a letter for its level and a space: "e xfs: Unknown ...". */
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
	/* Container runtimes return EPERM or ENOSYS for unknown system calls. */
	if (rc == 0 || errno == EPERM || errno == ENOSYS)
		return false;
	if (why)
		add_messages(fd, why);
	return true;
}
