/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies the content of a device. Searches for every signature that libblkid knows, at every
 * offset that it knows, and never guesses which of several is valid. An unreadable device is an
 * error; an empty one is FSPROBE_NOTHING. No state, any thread.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/str.h"

enum fsprobe_kind {
	FSPROBE_NOTHING,    /* no known signature; there may still be data (blank.h) */
	FSPROBE_FILESYSTEM, /* one filesystem; any other signature is inside one of its files */
	/*
	 * Any other content: a partition table, LUKS, a RAID or LVM member, swap, or several of
	 * these.
	 */
	FSPROBE_FOREIGN,
};

struct fsprobe {
	enum fsprobe_kind kind;
	char type[32]; /* filesystem type: "ext4", "xfs" */
	char uuid[48]; /* filesystem UUID; "": the filesystem lacks a UUID */
	/* all signatures found, for messages: "gpt partition table (signature at byte 512)" */
	char found[256];
	/* From the superblock; 0: not known for this type. */
	uint64_t size; /* size of the filesystem, in bytes */
	uint64_t block_size;
	uint8_t metadata_uuid[16]; /* btrfs: see superblock.h */
	uint64_t devices;          /* btrfs */
	bool unfinished;           /* xfs: mkfs was interrupted (superblock "in progress") */
	bool luks;                 /* FSPROBE_FOREIGN: a LUKS header, and no other signature */
};

const char *fsprobe_library(void); /* Returns the version of libblkid. */

/*
 * Probes the device on fd, which is open for reading; `name` is for errors. UNAVAILABLE: a read
 * error.
 */
int fsprobe_fd(int fd, const char *name, struct fsprobe *ret, struct err *err) MUST_CHECK;
