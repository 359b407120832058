/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar archive (ustar) of small files, written front to back to a descriptor, which may be a pipe.
 * The driver has its own code for this, because the format is one header of 512 bytes per file, and
 * libarchive would add nine libraries to the image.
 */
#pragma once

#include <stddef.h>
#include <time.h>

#include "common/err.h"

#define TAR_NAME_MAX 100

struct tar {
	const char *folder; /* directory prefixed to each name; "" */
	int fd;             /* owned by the caller */
	time_t mtime;
};

/*
 * Adds a file of mode 0600. The name, including `folder`, has at most TAR_NAME_MAX bytes; the size
 * is below 8 GiB.
 */
int tar_add(const struct tar *t, const char *name, const char *bytes, size_t n, struct err *err)
	MUST_CHECK;
/* Ends the archive. */
int tar_end(const struct tar *t, struct err *err) MUST_CHECK;
