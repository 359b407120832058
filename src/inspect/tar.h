/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tape archive (ustar) of small files, written front to back to a descriptor, which may be a
 * pipe. Own code, since it is one header of 512 bytes for each file, and libarchive would bring
 * nine libraries into the image.
 */
#pragma once

#include <stddef.h>
#include <time.h>

#include "common/err.h"

#define TAR_NAME_MAX 100

struct tar {
	const char *folder; /* in front of each name; "" for none */
	int fd;             /* the caller's */
	time_t mtime;
};

/*
 * A file of mode 0600; its name with the folder is at most TAR_NAME_MAX long, its size below 8 GiB.
 */
int tar_add(const struct tar *t, const char *name, const char *bytes, size_t n, struct err *err)
	MUST_CHECK;
/* The end of the archive. */
int tar_end(const struct tar *t, struct err *err) MUST_CHECK;
