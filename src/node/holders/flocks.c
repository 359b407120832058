/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares device and inode of each entry of type FLOCK. A waiter's entry ("1: -> FLOCK") follows
 * that of the owner, so it needs no case.
 */
#include "node/holders/flocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

#define LOCKS_MAX (8 * 1024 * 1024)

bool flock_is_held(const char *proc_root, const char *path)
{
	char *file AUTO(free) = xasprintf("%s/locks", proc_root);
	char *text AUTO(free) = NULL, *inode AUTO(free) = NULL, *rest = NULL;
	struct err ignored = ERR_INIT;
	struct stat st;

	if (stat(path, &st))
		return false;
	if (file_read(file, LOCKS_MAX, &text, NULL, &ignored))
		return true;
	inode = xasprintf(" %02x:%02x:%llu ", major(st.st_dev), minor(st.st_dev),
	                  (unsigned long long)st.st_ino);
	for (const char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (strstr(line, ": FLOCK ") && strstr(line, inode))
			return true;
	return false;
}
