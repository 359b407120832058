/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partitions of a disk, as the kernel lists them. A partition is a block device with a number
 * and a page cache of its own, so neither an open file of the partition nor its dirty pages show at
 * the whole disk. Any thread; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/err.h"

struct partition {
	dev_t devno;
	char name[64]; /* of its node in /dev: "nvme0n1p1" */
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
 * Reads the partitions of the whole disk `disk` from <proc root>/partitions, where one read lists
 * all block devices. The list is empty for a disk without partitions, and for one that is not
 * listed. UNAVAILABLE: the list could not be read.
 */
int partitions_read(const char *proc_root, dev_t disk, struct partitions *ret, struct err *err)
	MUST_CHECK;
bool partitions_have(const struct partitions *p, dev_t devno);
/* Do both lists have the same devices, in the same order? */
bool partitions_equal(const struct partitions *a, const struct partitions *b);
void partitions_clear(struct partitions *p);
DEFINE_AUTO_VALUE(struct partitions, partitions_clear);
