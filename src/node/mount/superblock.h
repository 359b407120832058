/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the superblock of an ext, xfs or btrfs says, which libblkid does not. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct superblock {
	uint64_t size; /* of the filesystem, in bytes */
	/* What the kernel's pages are compared with; btrfs calls it a sector. */
	uint64_t block_size;
	/*
	 * Up to here nothing but the filesystem's own structures can be; files may lie from here to
	 * `size`.
	 */
	uint64_t files_from;
	bool unfinished; /* xfs: mkfs was interrupted (superblock "in progress") */
	/*
	 * Its numbers make sense, and its checksum is right: that of btrfs and xfs version 5, and
	 * of ext with metadata_csum. Older formats have none.
	 */
	bool sound;
};

enum { SUPERBLOCK_UNKNOWN = 1 };
/*
 * fd is open on a filesystem of that type; `name` is for the error. SUPERBLOCK_UNKNOWN: not a type
 * that this file knows. UNAVAILABLE: it cannot be read.
 */
int superblock_read(int fd, const char *name, const char *fs_type, struct superblock *ret,
                    struct err *err) MUST_CHECK;
