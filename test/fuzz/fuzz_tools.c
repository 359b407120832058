/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as output of mkfs, of a tool that grows a filesystem, or of e2fsck: the first byte chooses
 * the tool, the second is its exit status. The linker replaces the functions that start a child by
 * those below.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/spawn.h"
#include "node/mount/fsck.h"
#include "node/mount/mkfs.h"
#include "node/mount/mkfs_features.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int __wrap_spawn_run(const struct strs *argv, struct deadline d, struct str *output,
                     struct err *err);
int __wrap_spawn_run_fd(const struct strs *argv, int fd, struct deadline d, struct str *output,
                        struct err *err);

static const uint8_t *printed;
static size_t n_printed;
static int status;

int __wrap_spawn_run(const struct strs *argv, struct deadline d, struct str *output,
                     struct err *err)
{
	(void)argv;
	(void)d;
	(void)err;
	str_addn(output, (const char *)printed, n_printed);
	return status;
}

int __wrap_spawn_run_fd(const struct strs *argv, int fd, struct deadline d, struct str *output,
                        struct err *err)
{
	(void)fd;
	return __wrap_spawn_run(argv, d, output, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char *const types[] = { "ext4", "xfs", "btrfs" };
	static const struct mkfs_params params;
	struct strs words AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	static int disk = -1;
	const char *type;
	int rc;

	if (n < 2)
		return 0;
	if (disk < 0)
		disk = memfd_create("disk", MFD_CLOEXEC);
	type = types[data[0] % ARRAY_LEN(types)];
	printed = data + 2;
	n_printed = n - 2;
	status = data[1];
	switch (data[0] / ARRAY_LEN(types) % 4) {
	case 0:
		rc = mkfs_run(type, &params, disk, "/dev/nvme0n1", &err);
		break;
	case 1:
		rc = fs_grow(type, "/dev/nvme0n1", "/mnt", deadline_never(), &err);
		break;
	case 2:
		rc = fsck_run(disk, "/dev/nvme0n1", false, &err);
		break;
	default: /* its version, on an old kernel */
		status = 0;
		rc = mkfs_features_off(type, "mkfs", "4.1.0", &words, &err);
		break;
	}
	/* 1 of e2fsck is success, too. */
	if (rc ? err.code == ERR_OK : status > 1)
		abort();
	return 0;
}
