/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way in which NodeStageVolume of a virtio-fs volume fails: code, text, and leftovers.
 * test/reports/error-paths.md has the same table; this program fails if the two differ
 * (UPDATE_DOCS=1 writes the file).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "test/lib/doc_lines.h"
#include "test/lib/share_world.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

/* One case while it runs. */
struct attempt {
	struct share_world w;
	struct share_device *d;
	struct stage_request r;
	const char *flag;
};

/* ---- the causes ---- */

static void raw_block(struct attempt *a)
{
	a->r.cap.type = ACCESS_BLOCK;
}

static void flag_of_ext4(struct attempt *a)
{
	a->flag = "commit=5";
}

static void tag_of_a_disk(struct attempt *a)
{
	a->d = share_world_add(&a->w, "LABEL=data");
	a->r = share_stage_request(&a->w, a->d, MODE_MULTI_NODE_MULTI_WRITER);
}

static void no_function(struct attempt *a)
{
	share_world_unplug(&a->w, a->d);
}

static void function_attr(struct attempt *a, const char *name, const char *value)
{
	run_tool("echo %s > %s/bus/pci/devices/%s/%s", value, a->w.node.nvme.sysfs, a->d->pci,
	         name);
}

static void network_card(struct attempt *a)
{
	function_attr(a, "class", "0x020000");
}

static void other_driver(struct attempt *a)
{
	run_tool("ln -sfn ../../drivers/vfio-pci %s/bus/pci/devices/%s/driver",
	         a->w.node.nvme.sysfs, a->d->pci);
}

static void other_tag(struct attempt *a)
{
	a->r.want.tag = "tag-z";
}

static void other_tag_bound(struct attempt *a)
{
	share_world_bind(&a->w, a->d);
	other_tag(a);
}

static void tag_elsewhere(struct attempt *a)
{
	struct share_device *second = share_world_add(&a->w, "tag-b");

	share_world_bind(&a->w, second);
	a->r.want.tag = "tag-b";
}

static void tag_elsewhere_unseen(struct attempt *a)
{
	share_world_unprove(&a->w);
	tag_elsewhere(a);
}

static void not_proven(struct attempt *a)
{
	share_world_unprove(&a->w);
	share_world_bind(&a->w, share_world_add(&a->w, "tag-b"));
	share_world_bind(&a->w, a->d);
}

static void no_modules(struct attempt *a)
{
	a->w.node.node.o.load_virtiofs = true;
	run_tool("rm -r %s/bus/virtio %s/bus/pci/drivers/virtio-pci", a->w.node.nvme.sysfs,
	         a->w.node.nvme.sysfs);
	run_tool("printf '#!/bin/sh\necho not found >&2; exit 1\n' > %s/modprobe && "
	         "chmod +x %s/modprobe",
	         a->w.node.nvme.root, a->w.node.nvme.root);
	spawn_set_path(a->w.node.nvme.root);
}

static void no_filesystem(struct attempt *a)
{
	a->w.node.node.o.virtiofs_type = "nosuchfs";
}

static void something_mounted(struct attempt *a)
{
	run_tool("mount -t tmpfs none %s", a->w.node.staging);
}

static void stage(struct attempt *a)
{
	node_world_stage(&a->w.node, &a->r);
}

static void staged_read_only(struct attempt *a)
{
	a->r.cap.mode = MODE_MULTI_NODE_READER_ONLY;
	stage(a);
	a->r.cap.mode = MODE_MULTI_NODE_MULTI_WRITER;
}

static void staged_with_flags(struct attempt *a)
{
	stage(a);
	a->flag = "noatime";
}

static void staged_for_another(struct attempt *a)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/other/globalmount", a->w.node.kubelet_dir);
	a->r.volume_id = "pvc-2";
	a->r.staging_path = path;
	stage(a);
	a->r.volume_id = VOLUME_ID;
	a->r.staging_path = a->w.node.staging;
}

static void staged_from_another_server(struct attempt *a)
{
	static struct share other;
	char *at AUTO(free) = xasprintf("%s/%s", a->w.tags, a->d->tag);

	stage(a);
	run_tool("umount -l %s", at);
	share_start(&other, a->d->tag, a->d->folder, at);
}

static void staged_and_hung(struct attempt *a)
{
	stage(a);
	share_signal(&a->d->daemon, SIGSTOP);
}

static void dead_server(struct attempt *a)
{
	share_world_bind(&a->w, a->d);
	share_signal(&a->d->daemon, SIGKILL);
}

static void hung_server(struct attempt *a)
{
	share_world_bind(&a->w, a->d);
	share_signal(&a->d->daemon, SIGSTOP);
	/* The test's first mount of a tag sends a request to the server; the kernel's does not. */
	run_tool("mkdir %s/copy && mount -i -n -c --bind %s/%s %s/copy", a->w.node.nvme.root,
	         a->w.tags, a->d->tag, a->w.node.nvme.root);
}

static void file_at_the_path(struct attempt *a)
{
	run_tool("rmdir %s && touch %s", a->w.node.staging, a->w.node.staging);
}

static const struct {
	const char *what;
	void (*spoil)(struct attempt *a);
	enum err_code code;
	const char *text;
	bool hangs; /* nothing may be accessed */
} rows[] = {
	{ "raw block", raw_block, ERR_INVALID, "cannot be raw block", false },
	{ "a mount flag of another filesystem", flag_of_ext4, ERR_INVALID, "commit=5", false },
	{ "a tag that mount(8) treats as a disk's label", tag_of_a_disk, ERR_INVALID,
	  "form LABEL=...", false },
	{ "a function of another class", network_card, ERR_PRECONDITION, "class 0x020000", false },
	{ "another driver holds the function", other_driver, ERR_PRECONDITION, "vfio-pci", false },
	{ "no function in the slot", no_function, ERR_DEADLINE, "time ran out", false },
	{ "the function has another tag, unbound", other_tag, ERR_PRECONDITION,
	  "(expected \"tag-z\", from the attachment)", false },
	{ "the function has another tag, bound", other_tag_bound, ERR_PRECONDITION,
	  "(expected \"tag-z\", from the attachment)", false },
	{ "another function has the tag", tag_elsewhere, ERR_PRECONDITION, "is that of virtio2",
	  false },
	{ "another function has the tag; tags cannot be read", tag_elsewhere_unseen,
	  ERR_PRECONDITION, "another device of this host has the tag", false },
	{ "tags cannot be read, and the driver holds two functions already", not_proven,
	  ERR_PRECONDITION, "not verify that the virtio-fs tag", false },
	{ "a kernel without virtio-fs modules", no_modules, ERR_UNAVAILABLE, "modprobe", false },
	{ "a kernel without the filesystem", no_filesystem, ERR_PRECONDITION, "no filesystem",
	  false },
	{ "a file at the staging path", file_at_the_path, ERR_PRECONDITION, "is not a directory",
	  false },
	{ "another filesystem is mounted there", something_mounted, ERR_PRECONDITION,
	  "already shows tmpfs", false },
	{ "staged read-only before", staged_read_only, ERR_EXISTS, "read-only, not read-write",
	  false },
	{ "staged before with different flags", staged_with_flags, ERR_EXISTS, "noatime", false },
	{ "its share is staged for another volume", staged_for_another, ERR_PRECONDITION,
	  "staged for another volume at", false },
	{ "staged, and the tag now belongs to another share", staged_from_another_server,
	  ERR_PRECONDITION, "a share other than the one", false },
	{ "staged, and its server hangs", staged_and_hung, ERR_UNAVAILABLE, "has not answered",
	  true },
	{ "its server hangs", hung_server, ERR_UNAVAILABLE, "has not answered", true },
	{ "its server is dead", dead_server, ERR_UNAVAILABLE, "tag-a", true },
};

/* ---- leftovers ---- */

struct state {
	size_t mounts, looks;
	char *tree;
	bool bound;
};

static struct state state_of(const struct attempt *a, bool hangs)
{
	return (struct state) {
		.mounts = mounts_below(a->w.node.kubelet_dir),
		.looks = mounts_below(a->w.node.plugin_dir),
		.tree = hangs ? xstrdup("") : kubelet_tree(&a->w.node),
		.bound = a->d->bound,
	};
}

static bool is_final(enum err_code code)
{
	return code != ERR_CANCELLED && code != ERR_DEADLINE && code != ERR_UNAVAILABLE &&
	       code != ERR_ABORTED;
}

static void write_row(size_t i, const struct attempt *a, const struct err *err, bool mounted)
{
	struct str text AUTO(str_clear) = STR_INIT(4000), line AUTO(str_clear) = STR_INIT(8000);
	const char *bold = is_final(err->code) ? "**" : "";

	doc_lines_plain(a->w.node.nvme.root, err->msg, &text);
	str_addf(&line, "| %s | %s%s%s | %s | %s |\n", rows[i].what, bold, err_code_name(err->code),
	         bold, text.ptr, mounted ? "the existing mount, unchanged" : "nothing");
	doc_lines_put(i, line.ptr);
}

START_TEST(a_failed_stage_of_a_share_leaves_nothing)
{
	size_t i = (size_t)_i;
	int ms = rows[i].code == ERR_DEADLINE ? 700 : 30000;
	struct attempt a = { .flag = NULL };
	struct err err = ERR_INIT;
	struct state was, is;

	SKIP_UNLESS_ROOT("mounts");
	share_world_init(&a.w);
	a.d = share_world_add(&a.w, "tag-a");
	a.r = share_stage_request(&a.w, a.d, MODE_MULTI_NODE_MULTI_WRITER);
	rows[i].spoil(&a);
	if (a.flag) {
		a.r.cap.mount_flags = &a.flag;
		a.r.cap.n_mount_flags = 1;
	}
	was = state_of(&a, rows[i].hangs);
	ck_assert_msg(node_stage(&a.w.node.node, &a.r, deadline_in_ms(ms), &err) == -1,
	              "%s: staged", rows[i].what);
	spawn_set_path(NULL);
	write_row(i, &a, &err, was.mounts > 0);
	ck_assert_msg(err.code == rows[i].code && strstr(err.msg, rows[i].text), "%s: %s: %s",
	              rows[i].what, err_code_name(err.code), err.msg);
	is = state_of(&a, rows[i].hangs);
	ck_assert_msg(is.mounts == was.mounts, "%s: %zu mounts", rows[i].what, is.mounts);
	ck_assert_msg(is.looks == 0, "%s: %zu looks", rows[i].what, is.looks);
	ROW_STR_EQ(rows[i].what, is.tree, was.tree);
	ck_assert_msg(is.bound == was.bound || (!is_final(err.code) && is.bound), "%s: driver",
	              rows[i].what);
	free(was.tree);
	free(is.tree);
	share_world_clear(&a.w);
}
END_TEST

START_TEST(the_document_has_this_table)
{
	SKIP_UNLESS_ROOT("mounts");
	SKIP_IF(getenv("CK_RUN_CASE") != NULL, "the other test writes its lines");
	doc_lines_check("test/reports/error-paths.md", "NodeStageVolume of a share",
	                "| what is wrong | code | text | what is left |\n"
	                "| --- | --- | --- | --- |\n",
	                ARRAY_LEN(rows));
}
END_TEST

static int begin(int argc, char **argv)
{
	return mount_helper_install(argc, argv) || doc_lines_begin(argc, argv);
}

static void end(void)
{
	doc_lines_end();
	mount_helper_remove();
}

SUITE_AROUND("share errors", 60, begin, end,
             LOOP(a_failed_stage_of_a_share_leaves_nothing, ARRAY_LEN(rows)),
             the_document_has_this_table);
