/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads fields of ext, xfs and btrfs superblocks that libblkid does not return. No state, any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct superblock {
	uint64_t size; /* size of the filesystem, in bytes */
	/* In bytes; to be compared with the kernel's page size. btrfs calls it the sector size. */
	uint64_t block_size;
	/*
	 * Files are between this offset and `size`; below it are only structures of the filesystem
	 * itself.
	 */
	uint64_t files_from;
	/*
	 * btrfs: the UUID in its metadata. The superblock's "fsid" differs from it after `btrfstune
	 * -m`, and in the kernel (6.7) while a copy of the filesystem is mounted.
	 */
	uint8_t metadata_uuid[16];
	uint64_t devices; /* btrfs: number of devices of the filesystem */
	bool unfinished;  /* xfs: mkfs was interrupted (superblock "in progress") */
	/*
	 * The numbers in the superblock are plausible, and its checksum is valid if it has one:
	 * btrfs, xfs version 5 and ext with metadata_csum do, older formats do not.
	 */
	bool sound;
};

enum { SUPERBLOCK_UNKNOWN = 1 };
/*
 * Reads the superblock of the filesystem on fd, of type `fs_type`; `name` is for errors. Returns
 * SUPERBLOCK_UNKNOWN if this file does not know the type. UNAVAILABLE: the superblock cannot be
 * read.
 */
int superblock_read(int fd, const char *name, const char *fs_type, struct superblock *ret,
                    struct err *err) MUST_CHECK;
