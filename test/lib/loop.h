/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block device for a test: one of the machine's free loop devices over a sparse file of a tree.
 * The kernel frees it when the last descriptor is closed, even if the test dies. Needs root
 * (skip.h).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "test/lib/tree.h"

struct loop {
	int fd; /* read-write, keeps the device */
	dev_t devno;
	uint64_t size;
	uint64_t diskseq; /* 0 if the kernel does not support it */
};

/* Waits while others use all loop devices; after half a minute the test fails. */
void loop_attach(struct loop *l, const struct tree *t, uint64_t size);
void loop_detach(struct loop *l);
DEFINE_AUTO_VALUE(struct loop, loop_detach);
/* A node of the device, <dev root>/<name>. */
void loop_node(const struct loop *l, const struct tree *t, const char *name);
