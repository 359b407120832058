/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on this device? Looks for every signature that libblkid knows, at every offset it knows;
 * which of several counts is never guessed. "Cannot be read" and "nothing there" are different
 * answers. No state, any thread.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/str.h"

enum fsprobe_kind {
	FSPROBE_NOTHING,    /* no known signature; there may be data all the same: see blank.h */
	FSPROBE_FILESYSTEM, /* one filesystem; other signatures lie in its files at most */
	/* Anything else: partition table, LUKS, RAID or LVM member, swap, several at once. */
	FSPROBE_FOREIGN,
};

struct fsprobe {
	enum fsprobe_kind kind;
	char type[32];   /* of a filesystem: "ext4", "xfs" */
	char uuid[48];   /* of a filesystem, "" when it has none */
	char found[256]; /* all of it, for people: "gpt partition table (signature at byte 512)" */
	/* By the superblock; 0: not known for this type. */
	uint64_t size; /* of the filesystem, in bytes */
	uint64_t block_size;
	bool unfinished; /* xfs: mkfs was interrupted (superblock "in progress") */
};

const char *fsprobe_library(void); /* version of libblkid */

/* fd is open for reading; `name` is for the error. A read error is UNAVAILABLE. */
int fsprobe_fd(int fd, const char *name, struct fsprobe *ret, struct err *err) MUST_CHECK;
