/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices over image files, which represent the disks. Needs root. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct loopdev {
	unsigned number; /* of /dev/loopN */
	dev_t devno;
	uint64_t diskseq; /* 0: this kernel does not support it */
};

/* RESOURCE_EXHAUSTED: none is free. */
int loopdev_attach(const char *image, unsigned sector_size, struct loopdev *ret, struct err *err)
	MUST_CHECK;
/*
 * Detaches the device. While a process has it open or mounted it stays until that process closes it
 * (the kernel's autoclear), and *ret_busy is true.
 */
int loopdev_detach(const struct loopdev *l, bool *ret_busy, struct err *err) MUST_CHECK;
/* Takes over the new size of the image. */
int loopdev_grow(const struct loopdev *l, struct err *err) MUST_CHECK;
/* Whether any loop device is over this file (same device and inode). */
bool loopdev_is_over(const char *image);
/* Detaches every loop device over this file; a killed snap-sim leaves some. */
void loopdev_detach_all(const char *image);
