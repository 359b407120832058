/* SPDX-License-Identifier: Apache-2.0 */
/* One VF of QEMU's vendor id in a recorded tree, bound only by writes of the tested code. */
#include "test/lib/wait_world.h"

#include <stdio.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"

static char *vendor_list[] = { (char *)"1b36", NULL };
static const struct strs vendors = { vendor_list, 1 };

void wait_world_clear(struct wait_world *w)
{
	kernel_clear(&w->kernel);
	tree_clear(&w->tree);
}

void wait_world_init(struct wait_world *w, const char *state)
{
	*w = (struct wait_world) { .want = { .volume_id = "vol",
		                             .pci = VF,
		                             .nsid = 1,
		                             .uuid = U1,
		                             .capacity = 64 * MIB } };
	tree_unpack(&w->tree, state);
	/* Recorded trees have no device nodes. This file exists, but is not a block device. */
	tree_write(&w->tree, "/dev/nvme0n1", "");
	kernel_init(&w->kernel, &w->tree);
	w->world = (struct device_world) { .sysfs = w->tree.sysfs,
		                           .dev = w->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id = "0010",
		                           .writer = &w->kernel.writer };
}

int wait_ms(struct wait_world *w, int ms)
{
	return device_wait(&w->world, &w->want, deadline_in_ms(ms), &w->dev, &w->err);
}

void add_namespace(const struct tree *t, uint32_t nsid, const char *uuid)
{
	char dev[16];
	struct kernel_namespace n = { .function = VF_DIR,
		                      .controller = 1,
		                      .instance = nsid,
		                      .nsid = nsid,
		                      .uuid = uuid,
		                      .size = 64 * MIB,
		                      .dev = dev,
		                      .diskseq = 40 + nsid };

	snprintf(dev, sizeof(dev), "259:%u", nsid);
	kernel_add_namespace(t, &n);
}

void namespace_on_bind(struct kernel *k, const char *pci)
{
	ck_assert_str_eq(pci, VF);
	add_namespace(k->tree, 1, U1);
}

void assert_writes(struct wait_world *w, const char *want)
{
	char *got AUTO(free) = kernel_writes(&w->kernel);

	ck_assert_str_eq(got, want);
}

void assert_override(struct wait_world *w, const char *want)
{
	char *got AUTO(free) = tree_read(&w->tree, OVERRIDE);

	ck_assert_str_eq(got, want);
}
