/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop device over a device node, as kubelet sets one up over a published block file; it appears
 * in the world's sysfs.
 */
#pragma once

#include "test/lib/nvme_world.h"

struct loop_over {
	char name[32]; /* "loop3" */
	char *node;    /* <dev>/loop3 of the world */
	char *sysfs;   /* <sysfs>/block/loop3 */
	int fd;
};

void loop_over_attach(struct loop_over *l, const struct nvme_world *w, const char *node);
void loop_over_detach(struct loop_over *l);
