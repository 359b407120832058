/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as the start of a disk of 8 MiB, for fsprobe and the blank check. A disk with a non-zero
 * byte must never be blank and without a known signature.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node/mount/blank.h"
#include "node/mount/fsprobe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define DISK_BYTES (8 * 1024 * 1024)

static bool all_zero(const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (data[i])
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static int disk = -1;
	struct err err = ERR_INIT;
	struct fsprobe found;
	struct blank blank;

	if (disk < 0)
		disk = memfd_create("disk", MFD_CLOEXEC);
	if (disk < 0 || ftruncate(disk, 0) || ftruncate(disk, DISK_BYTES) ||
	    pwrite(disk, data, n, 0) != (ssize_t)n)
		abort();
	if (fsprobe_fd(disk, "disk", &found, &err))
		return 0;
	if (blank_check(disk, "disk", DISK_BYTES, "pvc-1", &blank, &err))
		return 0;
	/* The blank check reads the whole first 4 MiB, and no input is that long. */
	if (blank.is_blank != all_zero(data, n))
		abort();
	return 0;
}
