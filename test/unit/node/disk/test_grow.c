/* SPDX-License-Identifier: Apache-2.0 */
/* Growth that outlives its call: it continues, is joined, and never starts twice. */
#include "test/lib/suite.h"

#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/disk/grow.h"
#include "node/work/job.h"
#include "test/lib/node_world.h"

static struct node_world w;

/* A tool that counts its runs, and works until <root>/go exists. */
static void put_tool(int status)
{
	run_tool("mkdir -p %s/tools && printf '#!/bin/sh\\necho run >> %s/runs\\n"
	         "while ! test -e %s/go; do sleep 0.02; done\\n"
	         "echo \"resize2fs: told to\" >&2\\nexit %d\\n' > %s/tools/resize2fs && "
	         "chmod +x %s/tools/resize2fs",
	         w.nvme.root, w.nvme.root, w.nvme.root, status, w.nvme.root, w.nvme.root);
}

static int grow(int ms, struct err *err)
{
	err_clear(err);
	return grow_filesystem(&w.node, VOLUME_ID, "ext4", "/dev/nvme0n1", w.staging,
	                       deadline_in_ms(ms), err);
}

static void expect_runs(const char *want)
{
	char *path AUTO(free) = xasprintf("%s/runs", w.nvme.root), *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	ck_assert_int_eq(file_read(path, 1000, &text, NULL, &err), 0);
	ck_assert_str_eq(text, want);
}

START_TEST(growth_goes_on_after_its_call_and_is_joined)
{
	char *tools AUTO(free) = NULL;
	struct err err = ERR_INIT;

	node_world_init(&w);
	tools = xasprintf("%s/tools", w.nvme.root);
	put_tool(_i);
	spawn_set_path(tools);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(grow(200, &err), -1);
		ck_assert_msg(err.code == ERR_DEADLINE &&
		                      strstr(err.msg, "growth of the ext4 on /dev/nvme0n1"),
		              "%s: %s", err_code_name(err.code), err.msg);
	}
	ck_assert(job_runs(w.node.jobs, VOLUME_ID)); /* so an unstage is refused */
	expect_runs("run\n");
	run_tool("touch %s/go", w.nvme.root);
	ck_assert_int_eq(grow(30000, &err), _i ? -1 : 0);
	ck_assert_msg(!_i || (err.code == ERR_INTERNAL && strstr(err.msg, "told to")), "%s",
	              err.msg);
	/* If the joined growth fails, its failure is the result; otherwise a second run is. */
	expect_runs(_i ? "run\n" : "run\nrun\n");
	spawn_set_path(NULL);
	node_world_clear(&w);
}
END_TEST

SUITE("grow", LOOP(growth_goes_on_after_its_call_and_is_joined, 2));
