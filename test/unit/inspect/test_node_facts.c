/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's report about its volumes: each incident is a row that is caused, detected, and reported
 * with a next step; the scan changes nothing.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "inspect/inspect.h"
#include "node/work/disk_record.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"
#include "volume/luks_name.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define DRIVER "csi.snap.nvidia.com"
#define CSI "plugins/kubernetes.io/csi"
#define ENOUGH_MS 4000

static struct node_world w;
static struct inspect_options *options;
static struct nvme_disk *disk;
static int64_t enough_ms = ENOUGH_MS;
static char *staging, *target, *block_staging, *block_target;

static void forget_options(void)
{
	if (options)
		inspect_options_clear(options);
	free(options);
	options = NULL;
}

/* kubelet's own file next to a staging or target path. */
static void put_vol_data(const char *dir, const char *volume_id)
{
	run_tool("mkdir -p %s && printf '{\"volumeHandle\":\"%s\",\"specVolID\":\"pv-1\","
	         "\"attachmentID\":\"csi-77\",\"driverName\":\"" DRIVER
	         "\"}' > %s/vol_data.json && touch -d '241 minutes ago' %s/vol_data.json",
	         dir, volume_id, dir, dir);
}

static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 32 * MIB);
	staging = xasprintf("%s/" CSI "/" DRIVER "/77/globalmount", w.kubelet_dir);
	target = xasprintf("%s/pods/uid-1/volumes/kubernetes.io~csi/pv-1/mount", w.kubelet_dir);
	block_staging = xasprintf("%s/" CSI "/volumeDevices/staging/pv-1", w.kubelet_dir);
	block_target = xasprintf("%s/" CSI "/volumeDevices/publish/pv-1/uid-1", w.kubelet_dir);
}

static void end(void)
{
	forget_options();
	node_world_clear(&w);
	free(staging);
	free(target);
	free(block_staging);
	free(block_target);
}

static void stage(const char *fs_type)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	r.staging_path = fs_type ? staging : block_staging;
	run_tool("mkdir -p %s", r.staging_path);
	if (fs_type) {
		char *dir AUTO(free) = xasprintf("%s/..", staging);

		put_vol_data(dir, VOLUME_ID);
	}
	node_world_stage(&w, &r);
}

static void publish(const char *fs_type)
{
	struct publish_request r = publish_request(&w, fs_type ? target : block_target, fs_type,
	                                           MODE_SINGLE_NODE_WRITER);

	r.staging_path = fs_type ? staging : block_staging;
	run_tool("mkdir -p $(dirname %s)", r.target_path);
	if (fs_type) {
		char *dir AUTO(free) = xasprintf("%s/..", target);

		put_vol_data(dir, VOLUME_ID);
	}
	node_world_publish(&w, &r);
}

/* The whole report; `word` and `other` follow "inspect" (NULL: omitted). */
static void inspect(struct inspect_report *ret, const char *word, const char *other)
{
	char *sysfs AUTO(free) = xasprintf("--sysfs-root=%s", w.nvme.sysfs);
	char *dev AUTO(free) = xasprintf("--dev-root=%s", w.nvme.dev);
	char *plugin AUTO(free) = xasprintf("--plugin-dir=%s", w.plugin_dir);
	char *kubelet AUTO(free) = xasprintf("--kubelet-dir=%s", w.kubelet_dir);
	char *proc AUTO(free) = xasprintf("--proc-root=%s", w.node.o.proc_root);
	char *argv[] = { (char *)"snap-csi-plugin",
		         (char *)"inspect",
		         (char *)"--mode=node",
		         (char *)"--node-id=n1",
		         sysfs,
		         dev,
		         plugin,
		         kubelet,
		         proc,
		         (char *)(uintptr_t)word,
		         (char *)(uintptr_t)other,
		         NULL };
	int argc = word ? (other ? 11 : 10) : 9;
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	forget_options();
	options = xcalloc(1, sizeof(*options));
	ck_assert_msg(inspect_options_read(options, argc, argv, &errors) == 0, "%s",
	              errors.n ? errors.v[0] : "");
	inspect_report_init(ret);
	ck_assert_msg(inspect_node_facts(ret, options, deadline_in_ms(enough_ms), &err) == 0, "%s",
	              err.msg);
}

static const char *at(const struct inspect_report *r, const char *path)
{
	const char *text = json_str(r->tree, path);

	return text ? text : "(none)";
}

/* The finding of the volume with this text; the test fails if it is missing. */
static void ck_finds(const struct inspect_report *r, const char *what, const char *says)
{
	json_foreach (f, json_at(r->tree, "findings")) {
		if (!strstr(json_str(f, "what"), says))
			continue;
		ck_assert_str_eq(json_str(f, "object"), "volume " VOLUME_ID);
		ck_assert_uint_gt(strlen(json_str(f, "next")), 20);
		return;
	}
	{
		char *all AUTO(free) = json_print_pretty(r->tree);

		ck_abort_msg("%s: nothing says \"%s\": %s", what, says, all);
	}
}

static void ck_nothing_found(const struct inspect_report *r)
{
	char *all AUTO(free) = json_print_pretty(r->tree);

	ck_assert_msg(r->n_findings == 0, "%s", all);
}

START_TEST(a_volume_in_use_is_shown_and_nothing_is_wrong)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	char *text = NULL;
	size_t n;
	FILE *out;

	SKIP_UNLESS_LOOP();
	begin();
	stage("ext4");
	publish("ext4");
	inspect(&r, NULL, NULL);
	ck_nothing_found(&r);
	ck_assert_uint_eq(json_count(json_at(r.tree, "volumes")), 1);
	ck_assert_str_eq(at(&r, "volumes.0.id"), VOLUME_ID);
	ck_assert_str_eq(at(&r, "volumes.0.node.staged.0.path"), staging);
	ck_assert_str_eq(at(&r, "volumes.0.node.staged.0.filesystem"), "ext4");
	ck_assert_str_eq(at(&r, "volumes.0.node.published.0.path"), target);
	ck_assert_str_eq(at(&r, "volumes.0.node.published.0.pod"), "uid-1");
	ck_assert_str_eq(at(&r, "volumes.0.node.device.name"), disk->node);
	ck_assert_str_eq(at(&r, "volumes.0.node.device.pci"), disk->pci);
	ck_assert_str_eq(at(&r, "volumes.0.node.device.uuid"), UUID);
	ck_assert_str_eq(at(&r, "volumes.0.node.persistentVolume"), "pv-1");
	ck_assert_str_eq(at(&r, "volumes.0.node.volumeAttachment"), "csi-77");
	ck_assert_str_eq(at(&r, "node.functions.0.volume"), VOLUME_ID);
	ck_assert_str_eq(at(&r, "node.id"), "n1");
	out = open_memstream(&text, &n);
	inspect_print(&r, out);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "FINDINGS: none\n"));
	ck_assert_ptr_nonnull(strstr(text, "since 4 h"));
	ck_assert_ptr_nonnull(strstr(text, "pod uid-1,"));
	ck_assert_ptr_nonnull(strstr(text, "filesystem ext4"));
	free(text);
	end();
}
END_TEST

START_TEST(raw_block_is_shown_too)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	publish(NULL);
	inspect(&r, NULL, NULL);
	ck_nothing_found(&r);
	ck_assert_str_eq(at(&r, "volumes.0.id"), VOLUME_ID);
	ck_assert_str_eq(at(&r, "volumes.0.node.staged.0.kind"), "block");
	ck_assert_str_eq(at(&r, "volumes.0.node.published.0.pod"), "uid-1");
	ck_assert_str_eq(at(&r, "volumes.0.node.device.pci"), disk->pci);
	end();
}
END_TEST

static struct nvme_disk *below; /* the disk of a mapping */

/* Makes the disk of begin() the mapping of a volume on another disk. */
static void become_mapping(const char *volume_id)
{
	const char *sys = w.nvme.sysfs;
	struct luks_name name = { .uuid = "" };

	luks_name(volume_id, &name);
	below = nvme_world_add(&w.nvme, 2, UUID, 48 * MIB);
	run_tool("cd %s && mkdir -p virtual/dm-0/dm virtual/dm-0/slaves && cd virtual/dm-0 && "
	         "cp %s/dev %s/size . && echo %s > dm/name && "
	         "echo CRYPT-LUKS2-u > dm/uuid && touch slaves/%s",
	         sys, disk->dir, disk->dir, name.mapping, below->name);
	nvme_world_hide(&w.nvme, disk);
	run_tool("ln -s ../../virtual/dm-0 %s/class/block/dm-0 && "
	         "ln -s ../../virtual/dm-0 %s/dev/block/%u:%u",
	         sys, sys, major(disk->devno), minor(disk->devno));
}

/* The volume's size is that of the disk, which DPF knows. The mapping is smaller by its header. */
START_TEST(an_encrypted_volume_is_shown_as_such_with_the_size_of_its_disk)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct luks_name name = { .uuid = "" };
	struct err err = ERR_INIT;
	int64_t size = 0;

	SKIP_UNLESS_LOOP();
	begin();
	stage("ext4");
	become_mapping(VOLUME_ID);
	luks_name(VOLUME_ID, &name);
	inspect(&r, NULL, NULL);
	ck_nothing_found(&r);
	ck_assert_str_eq(at(&r, "volumes.0.id"), VOLUME_ID);
	ck_assert_str_eq(at(&r, "volumes.0.node.device.pci"), below->pci);
	ck_assert_str_eq(at(&r, "volumes.0.node.device.uuid"), UUID);
	ck_assert_int_eq(json_get_i64(r.tree, "volumes.0.node.device.size", &size, &err), 0);
	ck_assert_int_eq(size, 48 * MIB);
	ck_assert_str_eq(at(&r, "volumes.0.node.device.encryption"), "luks2");
	ck_assert_str_eq(at(&r, "volumes.0.node.device.mapping"), name.mapping);
	ck_assert_str_eq(at(&r, "volumes.0.node.openMapping"), "(none)");
	end();
}
END_TEST

START_TEST(a_plain_volume_is_not_shown_as_encrypted)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };

	SKIP_UNLESS_LOOP();
	begin();
	stage("ext4");
	inspect(&r, NULL, NULL);
	ck_assert_str_eq(at(&r, "volumes.0.node.device.encryption"), "(none)");
	ck_assert_str_eq(at(&r, "volumes.0.node.device.mapping"), "(none)");
	end();
}
END_TEST

/* A removed device node leads to the disk that now has its number, here the volume's. */
START_TEST(a_removed_node_is_not_shown_as_the_volume_that_has_its_number)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	char *dir AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	dir = xasprintf("%s/" CSI "/volumeDevices/publish/pv-9", w.kubelet_dir);
	run_tool(
		"mkdir -p %s && touch %s/uid-9 && mount --bind %s %s/uid-9 && rm %s && mknod %s b %u %u",
		dir, dir, disk->node, dir, disk->node, disk->node, major(disk->devno),
		minor(disk->devno));
	stage(NULL);
	inspect(&r, NULL, NULL);
	ck_nothing_found(&r);
	ck_assert_str_eq(at(&r, "volumes.0.node.staged.0.kind"), "block");
	ck_assert_str_eq(at(&r, "volumes.0.node.published.0.path"), "(none)");
	run_tool("umount %s/uid-9", dir);
	end();
}
END_TEST

/* ---- incidents ---- */

static void device_vanishes(void)
{
	stage("ext4");
	nvme_world_hide(&w.nvme, disk);
}

static void staging_is_unmounted_by_hand(void)
{
	stage("ext4");
	publish("ext4");
	run_tool("umount %s", staging);
}

static void other_disk_at_the_target(void)
{
	const struct nvme_disk *other =
		nvme_world_add(&w.nvme, 1, "22222222-aaaa-4bbb-8ccc-000000000002", 32 * MIB);

	stage("ext4");
	publish("ext4");
	run_tool("umount %s && mkfs.ext4 -q %s && mount %s %s", target, other->loop, other->loop,
	         target);
}

static void staged_twice(void)
{
	const struct nvme_disk *other =
		nvme_world_add(&w.nvme, 1, "22222222-aaaa-4bbb-8ccc-000000000002", 32 * MIB);
	char *dir AUTO(free) = xasprintf("%s/" CSI "/" DRIVER "/78", w.kubelet_dir);

	stage("ext4");
	put_vol_data(dir, VOLUME_ID);
	run_tool("mkdir -p %s/globalmount && mkfs.ext4 -q %s && mount %s %s/globalmount", dir,
	         other->loop, other->loop, dir);
}

static void two_volumes_on_one_disk(void)
{
	char *dir AUTO(free) = xasprintf("%s/" CSI "/" DRIVER "/78", w.kubelet_dir);

	stage("ext4");
	put_vol_data(dir, "pvc-2");
	run_tool("mkdir -p %s/globalmount && mount --bind %s %s/globalmount", dir, staging, dir);
}

static void never_staged(void)
{
	char *dir AUTO(free) = xasprintf("%s/..", staging);

	run_tool("mkdir -p %s", staging);
	put_vol_data(dir, VOLUME_ID);
}

static void never_published(void)
{
	char *dir AUTO(free) = xasprintf("%s/..", target);

	stage("ext4");
	run_tool("mkdir -p %s", target);
	put_vol_data(dir, VOLUME_ID);
}

static bool is_covered, is_held;

static void covered(void)
{
	char *dir AUTO(free) = xasprintf("%s/" CSI "/" DRIVER, w.kubelet_dir);

	stage("ext4");
	run_tool("cp %s/77/vol_data.json %s/copy && mount -t tmpfs none %s/77 && "
	         "mkdir %s/77/globalmount && cp %s/copy %s/77/vol_data.json",
	         dir, w.nvme.root, dir, dir, w.nvme.root, dir);
	is_covered = true;
}

static void format_is_interrupted(void)
{
	struct device dev;
	struct err err = ERR_INIT;
	char *path AUTO(free) = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_MKFS);
	char *text = NULL;

	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	ck_assert_int_eq(disk_record_text(&w.node, DISK_RECORD_MKFS,
	                                  &(struct disk_record) { .volume_id = VOLUME_ID,
	                                                          .dev = &dev,
	                                                          .fs_type = "ext4",
	                                                          .diskseq = dev.diskseq },
	                                  &text, &err),
	                 0);
	run_tool("mkdir -p %s/formatting", w.plugin_dir);
	ck_assert_int_eq(file_replace(path, text, strlen(text), 0600, &err), 0);
	run_tool("touch -d '4410 minutes ago' %s", path);
	free(text);
}

static void unstage_is_stuck(void)
{
	struct disk_record r = { .volume_id = VOLUME_ID, .fs = disk->devno };
	struct device dev;
	struct err err = ERR_INIT;

	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	r.dev = &dev;
	r.diskseq = dev.diskseq;
	ck_assert_msg(disk_record_put_unstage(&w.node, &r, &err) == 0, "%s", err.msg);
	run_tool("touch -d '20 minutes ago' %s/unstaging/*", w.plugin_dir);
	/* Started by a shell, so that it is a separate process. */
	run_tool("(exec sleep 900 <%s >/dev/null 2>&1) & echo $! >%s/holder; "
	         "until grep -q sleep /proc/$!/comm; do sleep 0.01; done",
	         disk->node, w.nvme.root);
	is_held = true;
}

/* The record stays when the holder has ended; there is no process to end. */
static void unstage_was_stuck(void)
{
	unstage_is_stuck();
	run_tool(
		"pid=$(cat %s/holder); kill $pid; while test -e /proc/$pid/fd/0; do sleep 0.01; done",
		w.nvme.root);
	is_held = false;
}

/* Cleanup that end() cannot do. */
static void undo(void)
{
	if (is_held)
		run_tool("kill $(cat %s/holder)", w.nvme.root);
	if (is_covered)
		run_tool("umount %s/" CSI "/" DRIVER "/77", w.kubelet_dir);
	is_held = is_covered = false;
}

static const struct {
	const char *what;
	void (*make)(void);
	const char *says;
} incidents[] = {
	{ "the function vanishes", device_vanishes, "which no longer exists on this host" },
	{ "somebody unmounts the staging path", staging_is_unmounted_by_hand,
	  "but nothing is staged" },
	{ "the target shows another disk", other_disk_at_the_target, "but device" },
	{ "a volume is staged twice", staged_twice, "it is staged twice" },
	{ "two volumes have one disk", two_volumes_on_one_disk, "as volume pvc-2" },
	{ "kubelet wants it staged", never_staged, "has expected it staged for 4 h" },
	{ "kubelet wants it published", never_published, "has expected it in pod uid-1 for 4 h" },
	{ "the staging path is covered", covered, "mounted over it" },
	{ "a format is interrupted", format_is_interrupted,
	  "3 d 1 h ago and no process works on it now" },
	{ "an unstage is stuck", unstage_is_stuck, "(sleep)" },
	{ "an unstage was stuck", unstage_was_stuck, "was in use at the last attempt" },
};

START_TEST(each_incident_is_told_with_its_next_step)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct inspect_report one AUTO(inspect_report_clear) = { .tree = NULL };
	struct inspect_report other AUTO(inspect_report_clear) = { .tree = NULL };

	SKIP_UNLESS_LOOP();
	begin();
	incidents[_i].make();
	inspect(&r, NULL, NULL);
	inspect(&one, "volume", VOLUME_ID);
	inspect(&other, "volume", "pvc-9");
	undo();
	ck_finds(&r, incidents[_i].what, incidents[_i].says);
	ck_finds(&one, incidents[_i].what, incidents[_i].says);
	ck_assert_uint_eq(json_count(json_at(one.tree, "volumes")), 1);
	ck_nothing_found(&other);
	end();
}
END_TEST

/* ---- open mappings of encrypted volumes ---- */

static int lock_fd = -1;
static bool is_bound;

static void left_open(void)
{
}

static void held(void)
{
	run_tool("(exec sleep 900 <%s >/dev/null 2>&1) & echo $! >%s/holder; "
	         "until grep -q sleep /proc/$!/comm; do sleep 0.01; done",
	         disk->loop, w.nvme.root);
	is_held = true;
}

static void disk_is_removed(void)
{
	run_tool("rm %s/virtual/dm-0/slaves/*", w.nvme.sysfs);
}

/* As a stage does while it formats. */
static void disk_is_locked(void)
{
	lock_fd = open(below->node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(lock_fd, 0);
	ck_assert_int_eq(flock(lock_fd, LOCK_EX | LOCK_NB), 0);
}

static void node_is_bound(void)
{
	run_tool("mknod %s/dm-0 b %u %u && touch %s/bound && mount --bind %s/dm-0 %s/bound",
	         w.nvme.dev, major(disk->devno), minor(disk->devno), w.nvme.root, w.nvme.dev,
	         w.nvme.root);
	is_bound = true;
}

static void put_unstage_record(const char *age)
{
	struct disk_record r = { .volume_id = VOLUME_ID, .fs = disk->devno };
	struct device dev;
	struct err err = ERR_INIT;

	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	r.dev = &dev;
	r.diskseq = dev.diskseq;
	ck_assert_msg(disk_record_put_unstage(&w.node, &r, &err) == 0, "%s", err.msg);
	run_tool("touch -d '%s' %s/unstaging/*", age, w.plugin_dir);
}

static void unstage_has_begun(void)
{
	put_unstage_record("now");
}

static void unstage_began_long_ago(void)
{
	put_unstage_record("20 minutes ago");
}

static void undo_mapping(void)
{
	undo();
	if (lock_fd >= 0)
		close(lock_fd);
	if (is_bound)
		run_tool("umount %s/bound", w.nvme.root);
	lock_fd = -1;
	is_bound = false;
}

static const struct {
	const char *what;
	void (*make)(void);
	const char *says, *next; /* NULL: not reported */
} mappings[] = {
	{ "left open", left_open,
	  "is open, but not staged: no mount shows it, so its key stays in the kernel; no visible "
	  "process has it open",
	  "the next stage of its volume on this node, or a restart of the driver here, closes it; "
	  "by hand: cryptsetup close snap-csi-" },
	{ "held", held, "(sleep) has ",
	  "end the processes that have it open; then the next stage" },
	{ "on a removed disk", disk_is_removed, "of a disk that was removed) is open",
	  "the next stage" },
	{ "of an old unstage", unstage_began_long_ago, "so its key stays in the kernel",
	  "the next stage" },
	{ "of a new unstage", unstage_has_begun, NULL, NULL },
	{ "on a locked disk", disk_is_locked, NULL, NULL },
	{ "bound as raw block", node_is_bound, NULL, NULL },
};

static const struct json *finding_of(const struct inspect_report *r, const char *says)
{
	json_foreach (f, json_at(r->tree, "findings"))
		if (strstr(json_str(f, "what"), says))
			return f;
	return NULL;
}

START_TEST(an_open_mapping_is_reported_unless_it_is_staged_or_worked_on)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct inspect_report other AUTO(inspect_report_clear) = { .tree = NULL };
	struct luks_name name = { .uuid = "" };
	const struct json *f;

	SKIP_UNLESS_LOOP();
	begin();
	luks_name(VOLUME_ID, &name);
	become_mapping(VOLUME_ID);
	mappings[_i].make();
	inspect(&r, "volume", VOLUME_ID);
	undo_mapping();
	f = finding_of(&r, "encrypted mapping");
	ck_assert_msg((f != NULL) == (mappings[_i].says != NULL), "%s: %s", mappings[_i].what,
	              f ? json_str(f, "what") : "not reported");
	if (f) {
		ck_assert_str_eq(json_str(f, "object"), "volume " VOLUME_ID);
		ck_assert_msg(strstr(json_str(f, "what"), mappings[_i].says) != NULL, "%s: %s",
		              mappings[_i].what, json_str(f, "what"));
		ck_assert_msg(strstr(json_str(f, "what"), name.mapping) != NULL, "%s",
		              json_str(f, "what"));
		ck_assert_msg(strstr(json_str(f, "next"), mappings[_i].next) != NULL, "%s: %s",
		              mappings[_i].what, json_str(f, "next"));
	}
	ck_assert_str_eq(at(&r, "volumes.0.node.openMapping"), f ? name.mapping : "(none)");
	end();
}
END_TEST

START_TEST(an_open_mapping_of_an_unknown_volume_is_reported_for_the_node)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	const struct json *f;

	SKIP_UNLESS_LOOP();
	begin();
	become_mapping("pvc-of-no-record");
	inspect(&r, NULL, NULL);
	f = finding_of(&r, "encrypted mapping snap-csi-");
	ck_assert_ptr_nonnull(f);
	ck_assert_str_eq(json_str(f, "object"), "this node");
	ck_assert_msg(strstr(json_str(f, "what"), below->pci) != NULL, "%s", json_str(f, "what"));
	ck_assert_uint_eq(json_count(json_at(r.tree, "volumes")), 0);
	end();
}
END_TEST

/* ---- what it must not do ---- */

/*
 * Everything below the world's folder with all times, and all mounts in it. The image behind a
 * mounted disk is listed without times: the kernel writes to it at any time. The copies of other
 * tests' mounts end when those tests remove their folders.
 */
static char *recorded(void)
{
	struct err err = ERR_INIT;
	char *file AUTO(free) = xasprintf("/tmp/test_node_facts.%d", (int)getpid());
	char *text = NULL;

	run_tool("{ find %s -xdev -name '*.img' -printf '%%p %%s %%i %%m\\n' -o "
	         "-printf '%%p %%T@ %%C@ %%s %%i %%m\\n' | sort; "
	         "grep -F %s /proc/self/mountinfo || true; } >%s",
	         w.nvme.root, w.nvme.root, file);
	ck_assert_int_eq(file_read(file, 1 << 24, &text, NULL, &err), 0);
	unlink(file);
	return text;
}

/* Waits until two are equal: a thread of the stage may still write when the call has returned. */
static char *recorded_at_rest(void)
{
	struct deadline limit = wait_limit();
	char *one = recorded();

	for (;;) {
		char *two = recorded();
		bool rests = str_eq(one, two);

		free(one);
		one = two;
		if (rests)
			return one;
		ck_assert_msg(wait_a_moment(limit), "it changes without an inspect");
	}
}

static void volume_in_work(void)
{
	format_is_interrupted();
	unstage_is_stuck();
	stage("ext4");
	publish("ext4");
	format_is_interrupted();
}

static void mapping_left_open(void)
{
	become_mapping(VOLUME_ID);
	put_unstage_record("20 minutes ago");
}

static void (*const worlds[])(void) = { volume_in_work, mapping_left_open };

START_TEST(looking_changes_nothing)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	char *before AUTO(free) = NULL, *after AUTO(free) = NULL;
	size_t same;

	SKIP_UNLESS_LOOP();
	begin();
	worlds[_i]();
	before = recorded_at_rest();
	inspect(&r, NULL, NULL);
	after = recorded();
	undo();
	ck_assert_uint_gt(r.n_findings, 0);
	ck_assert(strlen(before) > 1000);
	for (same = 0; before[same] && before[same] == after[same];)
		same++;
	ck_assert_msg(before[same] == after[same], "%.300s\nwas\n%.300s", after + same,
	              before + same);
	end();
}
END_TEST

/*
 * Volatile: otherwise the compiler drops it, and LeakSanitizer does not find the owner of the
 * options.
 */
static struct inspect_options *volatile given_up;

START_TEST(a_host_that_hangs_ends_at_the_deadline_and_is_named)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };

	SKIP_UNLESS_LOOP();
	begin();
	stage("ext4");
	/* Opening a pipe for reading waits for a writer, like hanging storage. */
	run_tool("mkdir -p %s/pods/uid-2/volumes/kubernetes.io~csi/pv-2 && "
	         "mkfifo %s/pods/uid-2/volumes/kubernetes.io~csi/pv-2/vol_data.json",
	         w.kubelet_dir, w.kubelet_dir);
	inspect(&r, NULL, NULL); /* returns although the pipe has no writer */
	given_up =
		options; /* its thread may still read them: they are not freed, as in the program */
	options = NULL;
	ck_assert_str_eq(at(&r, "findings.0.object"), "this node");
	ck_assert_ptr_nonnull(strstr(at(&r, "findings.0.what"), "the directories of kubelet"));
	ck_assert_str_eq(at(&r, "node.hangs"), "the directories of kubelet");
	run_tool("echo >%s/pods/uid-2/volumes/kubernetes.io~csi/pv-2/vol_data.json", w.kubelet_dir);
	usleep(200000);
	end();
}
END_TEST

START_TEST(a_host_with_more_processes_than_there_is_time_for_is_shown_all_the_same)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	const char *root, *before;
	char *proc AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	root = w.nvme.root;
	stage("ext4");
	format_is_interrupted();
	/* 4000 processes with 1000 files each, all of them the same one. */
	run_tool("mkdir -p %s/crowd/p/fd && cd %s/crowd && ln -s /proc/[a-z]* . && "
	         "python3 -c 'import os; [os.symlink(\"p\", str(100000 + i)) for i in range(4000)];"
	         "[os.symlink(\"/etc/passwd\", \"p/fd/%%d\" %% i) for i in range(1000)]'",
	         root, root);
	before = w.node.o.proc_root;
	w.node.o.proc_root = proc = xasprintf("%s/crowd", root);
	enough_ms = 1000;
	inspect(&r, NULL, NULL);
	enough_ms = ENOUGH_MS;
	w.node.o.proc_root = before;
	ck_assert_str_eq(at(&r, "node.hangs"), "(none)");
	ck_assert_str_eq(at(&r, "volumes.0.node.staged.0.path"), staging);
	end();
}
END_TEST

SUITE("node_facts", a_volume_in_use_is_shown_and_nothing_is_wrong, raw_block_is_shown_too,
      an_encrypted_volume_is_shown_as_such_with_the_size_of_its_disk,
      a_plain_volume_is_not_shown_as_encrypted,
      LOOP(an_open_mapping_is_reported_unless_it_is_staged_or_worked_on, ARRAY_LEN(mappings)),
      an_open_mapping_of_an_unknown_volume_is_reported_for_the_node,
      a_removed_node_is_not_shown_as_the_volume_that_has_its_number,
      LOOP(each_incident_is_told_with_its_next_step, ARRAY_LEN(incidents)),
      LOOP(looking_changes_nothing, ARRAY_LEN(worlds)),
      a_host_with_more_processes_than_there_is_time_for_is_shown_all_the_same,
      a_host_that_hangs_ends_at_the_deadline_and_is_named);
