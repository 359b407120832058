/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partitions of a disk, as listed by the kernel. A partition is a block device with its own
 * number and page cache, so the whole disk shows neither open files nor dirty pages of a partition.
 * Any thread; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/err.h"

struct partition {
	dev_t devno;
	char name[64]; /* name of its node in /dev: "nvme0n1p1" */
};

struct partitions {
	struct partition *v;
	size_t n;
};

#define PARTITIONS_INIT           \
	{                         \
		.v = NULL, .n = 0 \
	}

/*
 * Reads the partitions of the whole disk `disk` from <proc root>/partitions, which lists all block
 * devices in one read. The result is empty if the disk has no partitions or is not listed.
 * UNAVAILABLE: the file could not be read.
 */
int partitions_read(const char *proc_root, dev_t disk, struct partitions *ret, struct err *err)
	MUST_CHECK;
bool partitions_have(const struct partitions *p, dev_t devno);
/* Returns true if both lists have the same devices in the same order. */
bool partitions_equal(const struct partitions *a, const struct partitions *b);
void partitions_clear(struct partitions *p);
DEFINE_AUTO_VALUE(struct partitions, partitions_clear);
