/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices over image files: what a volume looks like as a disk. Needs root. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct loopdev {
	unsigned number; /* of /dev/loopN */
	dev_t devno;
	uint64_t diskseq; /* 0: the kernel has none */
};

/* RESOURCE_EXHAUSTED when there is no free one. */
int loopdev_attach(const char *image, unsigned sector_size, struct loopdev *ret, struct err *err)
	MUST_CHECK;
/*
 * Lets the device go. While somebody has it open or mounted it stays until they let go (the
 * kernel's autoclear); *ret_busy says so.
 */
int loopdev_detach(const struct loopdev *l, bool *ret_busy, struct err *err) MUST_CHECK;
/* The image has grown. */
int loopdev_grow(const struct loopdev *l, struct err *err) MUST_CHECK;
/* Whether any loop device is over this file (same device and inode). */
bool loopdev_is_over(const char *image);
/* Detaches every loop device over this file: what a killed snap-sim has left. */
void loopdev_detach_all(const char *image);
