/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as <proc root>/self/mountinfo, then every query that the node runs on the table. The file
 * is a memfd behind a symbolic link: nothing is written to a disk.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/mount/mountinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char root[] = "/tmp/fuzz-mountinfo-XXXXXX";
static int memory = -1;

static void tidy(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/self/mountinfo", root);
	unlink(path);
	snprintf(path, sizeof(path), "%s/self", root);
	rmdir(path);
	rmdir(root);
}

static void set_up(void)
{
	char path[64], target[64];

	memory = memfd_create("mountinfo", MFD_CLOEXEC);
	if (memory < 0 || !mkdtemp(root))
		abort();
	snprintf(path, sizeof(path), "%s/self", root);
	snprintf(target, sizeof(target), "/proc/self/fd/%d", memory);
	if (mkdir(path, 0700))
		abort();
	snprintf(path, sizeof(path), "%s/self/mountinfo", root);
	if (symlink(target, path))
		abort();
	atexit(tidy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	if (memory < 0)
		set_up();
	if (ftruncate(memory, 0) || pwrite(memory, data, n, 0) != (ssize_t)n)
		abort();
	if (mount_table_read(root, &t, &err))
		return 0;
	for (size_t i = 0; i < t.n; i++) {
		const struct mount *m = &t.v[i];

		if (!mount_at(&t, m->target) == !mount_hidden_at(&t, m->target) ||
		    !mount_of(&t, m->devno, m->root, NULL))
			abort();
		(void)mount_same_mountpoint(&t, m, &t.v[0]);
	}
	return 0;
}
