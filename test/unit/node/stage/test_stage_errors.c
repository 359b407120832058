/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way in which NodeStageVolume fails: code, text, and leftovers, of which there must be none.
 * test/reports/error-paths.md has the same table; this program fails if the two differ
 * (UPDATE_DOCS=1 writes the file).
 */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/device/device_kind.h"
#include "node/work/disk_record.h"
#include "node/work/job.h"
#include "test/lib/doc_lines.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define OTHER_UUID "22222222-aaaa-4bbb-8ccc-000000000002"

/* One case while it runs. */
struct attempt {
	struct node_world w;
	struct nvme_disk *d;
	struct stage_request r;
	const char *flag;
	struct deadline deadline;
	struct cancel cancel;
	int held; /* a descriptor to close at the end */
	char text[256];
};

/* ---- the causes ---- */

static void bad_address(struct attempt *a)
{
	a->r.want.pci = "0000:zz:00.1";
}

static void host_bridge(struct attempt *a)
{
	a->r.want.pci = "00:00.0";
}

static void no_function(struct attempt *a)
{
	a->r.want.pci = "0000:27:00.1";
}

static void function_attr(struct attempt *a, const char *name, const char *value)
{
	run_tool("echo %s > %s/bus/pci/devices/%s/%s", value, a->w.nvme.sysfs, a->d->pci, name);
}

static void network_card(struct attempt *a)
{
	function_attr(a, "class", "0x020000");
}

static void other_vendor(struct attempt *a)
{
	function_attr(a, "vendor", "0x144d");
}

static void other_driver(struct attempt *a)
{
	run_tool("ln -sfn ../../../bus/pci/drivers/vfio-pci %s/bus/pci/devices/%s/driver",
	         a->w.nvme.sysfs, a->d->pci);
}

static void wrong_nsid(struct attempt *a)
{
	a->r.want.nsid = 9;
	a->r.want.uuid = "";
}

static void uuid_under_other_nsid(struct attempt *a)
{
	a->r.want.nsid = 9;
	a->r.want.uuid = UUID;
}

static void wrong_uuid(struct attempt *a)
{
	a->r.want.uuid = OTHER_UUID;
}

static void too_small(struct attempt *a)
{
	a->r.want.capacity = 1024 * MIB;
}

static void size_zero(struct attempt *a)
{
	nvme_world_attr(a->d, "size", "0");
}

static void resetting(struct attempt *a)
{
	run_tool("echo resetting > %s/../state", a->d->dir);
}

static void no_node(struct attempt *a)
{
	unlink(a->d->node);
}

static void other_node(struct attempt *a)
{
	unlink(a->d->node);
	run_tool("mknod %s b 1 250", a->d->node);
}

static void read_error(struct attempt *a)
{
	ck_assert_int_eq(truncate(a->d->image, 0), 0);
}

static void read_error_at_the_end(struct attempt *a)
{
	ck_assert_int_eq(truncate(a->d->image, 300 << 20), 0);
}

static void has_ext4(struct attempt *a)
{
	run_tool("mkfs.ext4 -q %s", a->d->loop);
}

static void unbound_with_ext4(struct attempt *a)
{
	has_ext4(a);
	nvme_world_unbind(&a->w.nvme, a->d);
}

static void unbound_without_record(struct attempt *a)
{
	nvme_world_unbind(&a->w.nvme, a->d);
	a->w.node.o.plugin_dir = "/proc/nowhere";
}

/* No file can be created there: ENOSPC. The mount is this process's own, and ends with it. */
static void unbound_and_full(struct attempt *a)
{
	nvme_world_unbind(&a->w.nvme, a->d);
	run_tool("mount -t tmpfs -o nr_inodes=1 full /mnt");
	a->r.staging_path = "/mnt/staging";
}

static void has_gpt(struct attempt *a)
{
	run_tool("echo 'label: gpt\n,' | sfdisk -q --no-reread --no-tell-kernel %s", a->d->loop);
}

static void has_luks(struct attempt *a)
{
	nvme_disk_write(a->d, 0, "LUKS\272\276\0\1", 8);
}

static void has_two(struct attempt *a)
{
	run_tool("mkfs.xfs -q %s", a->d->loop);
	nvme_disk_write(a->d, 1024 + 0x38, "\123\357", 2);
	nvme_disk_write(a->d, 1024, "\0\10\0\0\0\100\1\0", 8);
}

static void data_at_10_mib(struct attempt *a)
{
	char bytes[4096];

	memset(bytes, 0x5a, sizeof(bytes));
	nvme_disk_write(a->d, 10 * MIB, bytes, sizeof(bytes));
}

static void data_at_the_end(struct attempt *a)
{
	nvme_disk_write(a->d, a->d->size - 1000, "x", 1);
}

static void policy_never(struct attempt *a)
{
	a->r.params.format_policy = FORMAT_NEVER;
}

static void reader_only(struct attempt *a)
{
	a->r.cap.mode = MODE_MULTI_NODE_READER_ONLY;
}

static void write_protected(struct attempt *a)
{
	run_tool("blockdev --setro %s", a->d->loop);
	nvme_world_attr(a->d, "ro", "1");
}

/* As by a tool of a killed driver. */
static void locked(struct attempt *a)
{
	a->held = open(a->d->node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(flock(a->held, LOCK_EX), 0);
}

/* Mounts the disk where another volume would have it, by kubelet's names; `file`: of raw block. */
static void shown_at(struct attempt *a, const char *path, const char *file)
{
	char *dir AUTO(free) = xasprintf("%s/plugins/kubernetes.io/csi/%s", a->w.kubelet_dir, path);

	if (file)
		run_tool("mkdir -p %s && touch %s/%s && mount --bind %s %s/%s", dir, dir, file,
		         a->d->node, dir, file);
	else
		run_tool("mkdir -p %s/globalmount && mkfs.xfs -q %s && mount -o nouuid %s "
		         "%s/globalmount && echo '{\"driverName\":\"csi.snap.nvidia.com\","
		         "\"volumeHandle\":\"pvc-2\"}' > %s/vol_data.json",
		         dir, a->d->loop, a->d->node, dir, dir);
}

static void staged_for_another(struct attempt *a)
{
	shown_at(a, "csi.snap.nvidia.com/hash", NULL);
}

static void staged_as_block_for_another(struct attempt *a)
{
	shown_at(a, "volumeDevices/staging/pv-2", "pvc-2");
}

static void staged_at_another_path(struct attempt *a)
{
	shown_at(a, "volumeDevices/staging/pv-1", VOLUME_ID);
}

static void mounted_by_hand(struct attempt *a)
{
	run_tool("mkfs.xfs -q %s && mkdir %s/theirs && mount -o nouuid %s %s/theirs", a->d->loop,
	         a->w.nvme.root, a->d->node, a->w.nvme.root);
}

/* The disk has a record that cannot be removed. */
static void record_cannot_be_removed(struct attempt *a)
{
	char *record AUTO(free) = disk_record_path(&a->w.node, VOLUME_ID, DISK_RECORD_MKFS);

	run_tool("d=$(dirname %s); mkdir -p $d && touch %s && mount --bind $d $d && "
	         "mount -o remount,ro,bind $d",
	         record, record);
}

static void held_exclusively(struct attempt *a)
{
	a->held = open(a->d->node, O_RDONLY | O_EXCL);
	ck_assert_int_ge(a->held, 0);
}

static void small_xfs(struct attempt *a)
{
	nvme_world_resize(a->d, 200 * MIB);
}

static void no_place_for_the_record(struct attempt *a)
{
	a->w.node.o.plugin_dir = "/proc/nowhere";
}

static void record_is_unreadable(struct attempt *a)
{
	run_tool("touch %s", a->w.plugin_dir);
}

static void mkfs_missing(struct attempt *a)
{
	(void)a;
	run_tool("mount --bind /dev/null $(readlink -f $(command -v mkfs.xfs))");
}

static void fake_mkfs(struct attempt *a, const char *body)
{
	run_tool("mkdir %s/tools; printf '#!/bin/sh\\n%s\\n' > %s/tools/mkfs.xfs; chmod +x "
	         "%s/tools/mkfs.xfs",
	         a->w.nvme.root, body, a->w.nvme.root, a->w.nvme.root);
	snprintf(a->text, sizeof(a->text), "%s/tools", a->w.nvme.root);
	spawn_set_path(a->text);
}

#define HALF_WAY "echo half | dd of=/proc/self/fd/3 bs=1 seek=8192 2>/dev/null; "

static void mkfs_refuses(struct attempt *a)
{
	fake_mkfs(a, "echo no space left for the log; exit 1");
}

static void mkfs_fails(struct attempt *a)
{
	fake_mkfs(a, HALF_WAY "echo no space left for the log; exit 1");
}

static void mkfs_is_killed(struct attempt *a)
{
	fake_mkfs(a, HALF_WAY "kill -9 $$");
}

static void mkfs_does_nothing(struct attempt *a)
{
	fake_mkfs(a, "exit 0");
}

static void disk_goes_after_mkfs(struct attempt *a)
{
	char *body AUTO(free) = xasprintf("/sbin/mkfs.xfs \"$@\" && rm %s", a->d->node);

	fake_mkfs(a, body);
}

static void flag_refused(struct attempt *a)
{
	a->flag = "loop";
}

static void flag_of_no_use(struct attempt *a)
{
	a->flag = "logbufs=99";
}

static void flag_unknown(struct attempt *a)
{
	a->flag = "nonsense=1";
}

static void flag_context(struct attempt *a)
{
	a->flag = "context=system_u:object_r:container_file_t:s0";
}

static void damaged(struct attempt *a)
{
	run_tool("mkfs.xfs -q %s", a->d->loop);
	nvme_disk_write(a->d, 108, "x", 1); /* the checksum of the superblock no longer fits */
}

static void damaged_ext4(struct attempt *a)
{
	run_tool("mkfs.ext4 -q %s && printf 'sif <2> mode 0100644\nssv state 3\n' | debugfs -w -f "
	         "/dev/stdin %s > /dev/null 2>&1",
	         a->d->loop, a->d->loop);
}

static void ext4_with_errors_write_protected(struct attempt *a)
{
	run_tool("mkfs.ext4 -q %s && debugfs -w -R 'ssv state 3' %s 2> /dev/null", a->d->loop,
	         a->d->loop);
	nvme_world_attr(a->d, "ro", "1");
}

static void damaged_beyond_recognition(struct attempt *a)
{
	run_tool("mkfs.xfs -q %s", a->d->loop);
	nvme_disk_write(a->d, 0, "x", 1);
}

static void unfinished(struct attempt *a)
{
	run_tool("mkfs.xfs -q %s", a->d->loop);
	nvme_disk_write(a->d, 126, "\1", 1);
}

static void staging_is_a_file(struct attempt *a)
{
	run_tool("rmdir %s && touch %s", a->w.staging, a->w.staging);
}

static void staging_below_a_file(struct attempt *a)
{
	run_tool("touch %s/f", a->w.staging);
	snprintf(a->text, sizeof(a->text), "%s/f/globalmount", a->w.staging);
	a->r.staging_path = a->text;
}

static void staging_is_a_link(struct attempt *a)
{
	run_tool("rmdir %s && mkdir %s.elsewhere && ln -s %s.elsewhere %s", a->w.staging,
	         a->w.staging, a->w.staging, a->w.staging);
}

static void block_file_has_data(struct attempt *a)
{
	run_tool("echo data > %s", a->w.block_file);
}

static void other_disk_mounted(struct attempt *a)
{
	struct nvme_disk *other = nvme_world_add(&a->w.nvme, 1, OTHER_UUID, 64 * MIB);

	run_tool("mkfs.ext4 -q %s && mount %s %s", other->loop, other->node, a->w.staging);
}

static void other_disk_bound(struct attempt *a)
{
	struct nvme_disk *other = nvme_world_add(&a->w.nvme, 1, OTHER_UUID, 64 * MIB);

	run_tool("touch %s && mount --bind %s %s", a->w.block_file, other->node, a->w.block_file);
}

static void something_else_mounted(struct attempt *a)
{
	run_tool("mount -t tmpfs x %s", a->w.staging);
}

static void staged_block_before(struct attempt *a)
{
	run_tool("touch %s && mount --bind %s %s", a->w.block_file, a->d->node, a->w.block_file);
}

static void staged_ext4_before(struct attempt *a)
{
	run_tool("mkfs.ext4 -q %s && mount %s %s", a->d->loop, a->d->node, a->w.staging);
}

static void staged_read_only_before(struct attempt *a)
{
	run_tool("mkfs.xfs -q %s && mount -o ro,nouuid %s %s", a->d->loop, a->d->node,
	         a->w.staging);
}

static void staged_noexec_before(struct attempt *a)
{
	run_tool("mkfs.xfs -q %s && mount -o noexec,nouuid %s %s", a->d->loop, a->d->node,
	         a->w.staging);
}

/* A file is open in a detached mount: no mount shows the filesystem any more. */
static void held_unseen(struct attempt *a, const char *mkfs, const char *options)
{
	char *file AUTO(free) = xasprintf("%s/held", a->w.staging);

	run_tool("%s -q %s && mount -o %s %s %s", mkfs, a->d->loop, options, a->d->node,
	         a->w.staging);
	a->held = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	ck_assert_int_ge(a->held, 0);
	run_tool("umount --lazy %s", a->w.staging);
}

static void xfs_held_with_other_flags(struct attempt *a)
{
	held_unseen(a, "mkfs.xfs", "largeio,nouuid");
}

static void ext4_held_with_other_flags(struct attempt *a)
{
	a->flag = "discard";
	held_unseen(a, "mkfs.ext4", "errors=remount-ro");
}

static void no_mountinfo(struct attempt *a)
{
	a->w.node.o.proc_root = "/nonexistent";
}

static void time_is_over(struct attempt *a)
{
	a->deadline = deadline_in_ms(0);
	no_function(a);
}

static void caller_has_gone(struct attempt *a)
{
	cancel_init(&a->cancel);
	cancel_set(&a->cancel);
	a->deadline.cancel = &a->cancel;
	no_function(a);
}

static int wait_for_the_end(void *arg, struct err *err)
{
	(void)arg;
	(void)err;
	pause(); /* the end of this case's process ends it */
	return 0;
}

static void keep(void *arg)
{
	(void)arg;
}

static void others_are_formatting(struct attempt *a)
{
	for (unsigned i = 0; i < a->w.node.o.max_formats; i++) {
		struct err err = ERR_INIT;
		struct job_order o = { .key = i ? "pvc-8" : "pvc-9",
			               .what = "mkfs",
			               .run = wait_for_the_end,
			               .free = keep,
			               .arg = NULL };
		ck_assert_int_eq(job_run(a->w.node.jobs, &o, deadline_in_ms(1), &err), -1);
	}
}

/* ---- the table ---- */

enum left {
	NOTHING,
	THE_MOUNT_THAT_WAS_THERE,
	A_FORMATTING_RECORD,
	THE_MOUNT_AND_THE_RECORD, /* of the folder, read-only */
	THE_DRIVER_FOR_THE_RETRY,
};

static const struct {
	const char *what;
	const char *fs_type; /* NULL: raw block */
	void (*spoil)(struct attempt *a);
	enum err_code code;
	const char *text; /* contained in the message */
	enum left left;
} rows[] = {
	{ "no valid address", "xfs", bad_address, ERR_INVALID, "is not a PCI address", NOTHING },
	{ "address 00:00.0", "xfs", host_bridge, ERR_INVALID, "before the host had enumerated",
	  NOTHING },
	{ "no such function", "xfs", no_function, ERR_DEADLINE, "no PCI function 0000:27:00.1",
	  NOTHING },
	{ "the function is a network card", "xfs", network_card, ERR_PRECONDITION, "class 0x020000",
	  NOTHING },
	{ "function of another vendor", "xfs", other_vendor, ERR_PRECONDITION, "vendor 144d",
	  NOTHING },
	{ "another driver holds the function", "xfs", other_driver, ERR_PRECONDITION, "vfio-pci",
	  NOTHING },
	{ "controller resets", "xfs", resetting, ERR_DEADLINE, "in state \"resetting\"", NOTHING },
	{ "wrong namespace ID", "xfs", wrong_nsid, ERR_DEADLINE, "has no namespace 9; it has: 1",
	  NOTHING },
	{ "UUID under another nsid", "xfs", uuid_under_other_nsid, ERR_PRECONDITION,
	  "but the attachment has this UUID for namespace 9", NOTHING },
	{ "wrong UUID", "xfs", wrong_uuid, ERR_PRECONDITION, "(expected " OTHER_UUID, NOTHING },
	{ "smaller than the volume", "xfs", too_small, ERR_PRECONDITION, "the volume has 1.0 GiB",
	  NOTHING },
	{ "size 0", "xfs", size_zero, ERR_DEADLINE, "has size 0", NOTHING },
	{ "no device node", "xfs", no_node, ERR_DEADLINE, "the driver's pod needs the host's /dev",
	  NOTHING },
	{ "node of another device", "xfs", other_node, ERR_PRECONDITION,
	  "is the node of device 1:250", NOTHING },
	{ "read error", "xfs", read_error, ERR_UNAVAILABLE, "look for signatures on", NOTHING },
	{ "read error near the end", "xfs", read_error_at_the_end, ERR_UNAVAILABLE,
	  "Input/output error", NOTHING },
	{ "a tool of an earlier driver works on it", "xfs", locked, ERR_ABORTED,
	  "still runs (see lslocks", NOTHING },
	{ "ext4 where xfs is requested", "xfs", has_ext4, ERR_PRECONDITION,
	  "contains ext4 filesystem (signature at byte 1080), but the volume wants xfs", NOTHING },
	{ "bound by this call, then ext4", "xfs", unbound_with_ext4, ERR_PRECONDITION,
	  "contains ext4", NOTHING },
	{ "bound by this call, then a code that is not final", "xfs", unbound_without_record,
	  ERR_UNAVAILABLE, "its formatting record cannot be written", THE_DRIVER_FOR_THE_RETRY },
	{ "bound by this call, then the host is full", "xfs", unbound_and_full, ERR_EXHAUSTED,
	  "No space left on device", NOTHING },
	{ "gpt", "xfs", has_gpt, ERR_PRECONDITION,
	  "contains gpt partition table (signature at byte 512), but the volume wants xfs",
	  NOTHING },
	{ "LUKS", "ext4", has_luks, ERR_PRECONDITION,
	  "contains crypto_LUKS (signature at byte 0), but the volume wants ext4", NOTHING },
	{ "two filesystems", "xfs", has_two, ERR_PRECONDITION, " and ", NOTHING },
	{ "data at 10 MiB", "xfs", data_at_10_mib, ERR_PRECONDITION,
	  "not blank (byte 10485760 is 0x5a)", NOTHING },
	{ "one byte in the last MiB", "xfs", data_at_the_end, ERR_PRECONDITION,
	  "not blank (byte 335543320 is 0x78)", NOTHING },
	{ "blank, formatPolicy: never", "xfs", policy_never, ERR_PRECONDITION,
	  "csi.snap.nvidia.com/formatPolicy: never", NOTHING },
	{ "blank, reader-only mode", "xfs", reader_only, ERR_PRECONDITION,
	  "read-only volume is never formatted", NOTHING },
	{ "blank, write-protected", "xfs", write_protected, ERR_PRECONDITION,
	  "is write-protected by its controller", NOTHING },
	{ "blank, held by another process", "xfs", held_exclusively, ERR_PRECONDITION, "is in use",
	  NOTHING },
	{ "too small for xfs", "xfs", small_xfs, ERR_INVALID, "xfs needs at least 300.0 MiB",
	  NOTHING },
	{ "unfinished xfs, no record", "xfs", unfinished, ERR_PRECONDITION, "mkfs was interrupted",
	  NOTHING },
	{ "record cannot be written", "xfs", no_place_for_the_record, ERR_UNAVAILABLE,
	  "its formatting record cannot be written", NOTHING },
	{ "record cannot be read", "xfs", record_is_unreadable, ERR_UNAVAILABLE,
	  "read the formatting record of this volume: ", NOTHING },
	{ "the maximum number of formats is running", "xfs", others_are_formatting, ERR_DEADLINE,
	  "this volume's turn", NOTHING },
	{ "mkfs not installed", "xfs", mkfs_missing, ERR_INTERNAL, "mkfs.xfs is not installed",
	  NOTHING },
	{ "the disk is removed before the mount", "xfs", disk_goes_after_mkfs, ERR_UNAVAILABLE,
	  "was removed during the call, or its name now belongs to another disk",
	  THE_DRIVER_FOR_THE_RETRY },
	{ "mkfs refuses", "xfs", mkfs_refuses, ERR_INTERNAL, "no space left for the log", NOTHING },
	{ "mkfs fails half way", "xfs", mkfs_fails, ERR_INTERNAL, "no space left for the log",
	  A_FORMATTING_RECORD },
	{ "mkfs is killed half way", "xfs", mkfs_is_killed, ERR_INTERNAL, "killed by signal 9",
	  A_FORMATTING_RECORD },
	{ "mkfs creates no filesystem", "xfs", mkfs_does_nothing, ERR_INTERNAL, "now contains",
	  NOTHING },
	{ "mount flag refused", "xfs", flag_refused, ERR_INVALID, "mount flag \"loop\" is refused",
	  NOTHING },
	{ "mount option unknown", "xfs", flag_unknown, ERR_INVALID, "not an option for xfs",
	  NOTHING },
	{ "mount option that the kernel refuses", "xfs", flag_of_no_use, ERR_INVALID,
	  "with the mount options \"logbufs=99", NOTHING },
	{ "context= without SELinux", "xfs", flag_context, ERR_PRECONDITION, "is mounted without",
	  NOTHING },
	{ "damaged filesystem", "xfs", damaged, ERR_DATA_LOSS, "(xfs)", NOTHING },
	{ "damaged ext4, error flag set", "ext4", damaged_ext4, ERR_PRECONDITION,
	  "e2fsck -p cannot repair", NOTHING },
	{ "ext4 with errors, write-protected", "ext4", ext4_with_errors_write_protected,
	  ERR_PRECONDITION, "the device is read-only", NOTHING },
	{ "damaged beyond recognition", "xfs", damaged_beyond_recognition, ERR_PRECONDITION,
	  "not blank (byte 0 is 0x78)", NOTHING },
	{ "staging path is a file", "xfs", staging_is_a_file, ERR_PRECONDITION,
	  "is not a directory", NOTHING },
	{ "staging path below a file", "xfs", staging_below_a_file, ERR_PRECONDITION,
	  "Not a directory", NOTHING },
	{ "staging path is a link", "xfs", staging_is_a_link, ERR_PRECONDITION,
	  "is not a directory", NOTHING },
	{ "another disk is mounted there", "xfs", other_disk_mounted, ERR_PRECONDITION, OTHER_UUID,
	  THE_MOUNT_THAT_WAS_THERE },
	{ "a tmpfs is mounted there", "xfs", something_else_mounted, ERR_PRECONDITION,
	  "shows tmpfs of device 0:", THE_MOUNT_THAT_WAS_THERE },
	{ "staged as block before", "xfs", staged_block_before, ERR_EXISTS, "as raw block, not as",
	  THE_MOUNT_THAT_WAS_THERE },
	{ "staged as ext4 before", "xfs", staged_ext4_before, ERR_EXISTS,
	  "staged as ext4, not as xfs", THE_MOUNT_THAT_WAS_THERE },
	{ "staged read-only before", "xfs", staged_read_only_before, ERR_EXISTS,
	  "staged read-only, not", THE_MOUNT_THAT_WAS_THERE },
	{ "staged with noexec before", "xfs", staged_noexec_before, ERR_EXISTS,
	  "already staged with other mount flags (noexec differs", THE_MOUNT_THAT_WAS_THERE },
	{ "staged for another volume", "xfs", staged_for_another, ERR_PRECONDITION,
	  "staged for volume pvc-2 at ", THE_MOUNT_THAT_WAS_THERE },
	{ "staged as block for another volume", "xfs", staged_as_block_for_another,
	  ERR_PRECONDITION, "staged for volume pvc-2 at ", THE_MOUNT_THAT_WAS_THERE },
	{ "staged at another path", "xfs", staged_at_another_path, ERR_PRECONDITION,
	  "staged for this volume at ", THE_MOUNT_THAT_WAS_THERE },
	{ "mounted elsewhere by a user", "xfs", mounted_by_hand, ERR_PRECONDITION,
	  "is in use: mounted at ", THE_MOUNT_THAT_WAS_THERE },
	{ "held by another process, with largeio", "xfs", xfs_held_with_other_flags,
	  ERR_UNAVAILABLE, "was mounted with flags other than requested (largeio differs)",
	  NOTHING },
	{ "held by another process, without discard", "ext4", ext4_held_with_other_flags,
	  ERR_UNAVAILABLE, "was mounted with flags other than requested (discard differs)",
	  NOTHING },
	{ "mountinfo unreadable", "xfs", no_mountinfo, ERR_UNAVAILABLE,
	  "/nonexistent/self/mountinfo", NOTHING },
	{ "the deadline has passed", "xfs", time_is_over, ERR_DEADLINE, "time ran out", NOTHING },
	{ "the caller has disconnected", "xfs", caller_has_gone, ERR_CANCELLED,
	  "the caller cancelled the call", NOTHING },
	{ "block: wrong UUID", NULL, wrong_uuid, ERR_PRECONDITION, OTHER_UUID, NOTHING },
	{ "block: file has data", NULL, block_file_has_data, ERR_PRECONDITION, "5 bytes of data",
	  NOTHING },
	{ "block: another disk is bound there", NULL, other_disk_bound, ERR_PRECONDITION,
	  OTHER_UUID, THE_MOUNT_THAT_WAS_THERE },
	{ "block: staged as ext4 before", NULL, staged_ext4_before, ERR_EXISTS,
	  "as a filesystem, not as raw block", THE_MOUNT_THAT_WAS_THERE },
	{ "block: staged for another volume", NULL, staged_for_another, ERR_PRECONDITION,
	  "staged for volume pvc-2 at ", THE_MOUNT_THAT_WAS_THERE },
	{ "block: staged as block for another volume", NULL, staged_as_block_for_another,
	  ERR_PRECONDITION, "staged for volume pvc-2 at ", THE_MOUNT_THAT_WAS_THERE },
	{ "block: a record of mkfs cannot be removed", NULL, record_cannot_be_removed,
	  ERR_UNAVAILABLE, "Read-only file system", THE_MOUNT_AND_THE_RECORD },
	{ "block: no device node", NULL, no_node, ERR_DEADLINE,
	  "the driver's pod needs the host's /dev", NOTHING },
};

/* The kinds of errors; a row that is not here has no kind. */
static const struct {
	const char *what;
	enum err_kind kind;
} row_kinds[] = {
	{ "UUID under another nsid", ERR_KIND_WRONG_DEVICE },
	{ "wrong UUID", ERR_KIND_WRONG_DEVICE },
	{ "smaller than the volume", ERR_KIND_WRONG_DEVICE },
	{ "block: wrong UUID", ERR_KIND_WRONG_DEVICE },
	{ "ext4 where xfs is requested", ERR_KIND_HAS_DATA },
	{ "bound by this call, then ext4", ERR_KIND_HAS_DATA },
	{ "gpt", ERR_KIND_HAS_DATA },
	{ "LUKS", ERR_KIND_HAS_DATA },
	{ "two filesystems", ERR_KIND_HAS_DATA },
	{ "data at 10 MiB", ERR_KIND_HAS_DATA },
	{ "one byte in the last MiB", ERR_KIND_HAS_DATA },
	{ "unfinished xfs, no record", ERR_KIND_HAS_DATA },
	{ "damaged beyond recognition", ERR_KIND_HAS_DATA },
	{ "blank, held by another process", ERR_KIND_HELD },
	{ "held by another process, with largeio", ERR_KIND_HELD },
	{ "held by another process, without discard", ERR_KIND_HELD },
};

static enum err_kind kind_of(const char *what)
{
	for (size_t i = 0; i < ARRAY_LEN(row_kinds); i++)
		if (str_eq(row_kinds[i].what, what))
			return row_kinds[i].kind;
	return ERR_KIND_NONE;
}

/* ---- before and after ---- */

/*
 * All possible leftovers of a failed stage: mounts, files, the driver override, the read-only
 * switch, the record.
 */
struct state {
	size_t mounts;
	char *tree;
	char *override;
	bool driver;
	int read_only;
	bool record;
};

static struct state state_of(const struct attempt *a)
{
	struct state s = { .mounts = mounts_below(a->w.nvme.root), .tree = kubelet_tree(&a->w) };
	char *override AUTO(free) =
		xasprintf("%s/bus/pci/devices/%s/driver_override", a->w.nvme.sysfs, a->d->pci);
	char *driver AUTO(free) =
		xasprintf("%s/bus/pci/devices/%s/driver", a->w.nvme.sysfs, a->d->pci);
	char *record AUTO(free) = disk_record_path(&a->w.node, VOLUME_ID, DISK_RECORD_MKFS);
	struct err err = ERR_INIT;

	s.driver = path_exists(driver);
	ck_assert_int_eq(file_read(override, 100, &s.override, NULL, &err), 0);
	ck_assert_int_eq(ioctl(a->d->fd, BLKROGET, &s.read_only), 0);
	s.record = path_exists(record);
	return s;
}

static void state_clear(struct state *s)
{
	free(s->tree);
	free(s->override);
}

static void check_unchanged(size_t i, const struct state *was, const struct state *is)
{
	const char *what = rows[i].what;

	ck_assert_msg(was->mounts == is->mounts, "%s: %zu mounts, then %zu", what, was->mounts,
	              is->mounts);
	ck_assert_msg(was->mounts == (rows[i].left == THE_MOUNT_THAT_WAS_THERE ||
	                              rows[i].left == THE_MOUNT_AND_THE_RECORD),
	              "%s", what);
	ROW_STR_EQ(what, is->tree, was->tree);
	ROW_STR_EQ(what, is->override, was->override);
	ck_assert_msg(is->driver == (was->driver || rows[i].left == THE_DRIVER_FOR_THE_RETRY),
	              "%s: driver", what);
	ck_assert_msg(was->read_only == is->read_only, "%s", what);
	ck_assert_msg(is->record == (rows[i].left == A_FORMATTING_RECORD ||
	                             rows[i].left == THE_MOUNT_AND_THE_RECORD),
	              "%s: record", what);
}

static bool is_final(enum err_code code)
{
	return code != ERR_CANCELLED && code != ERR_DEADLINE && code != ERR_UNAVAILABLE &&
	       code != ERR_ABORTED;
}

/* ---- the document ---- */

static void write_row(size_t i, const struct attempt *a, const struct err *err)
{
	static const char *const left[] = { "nothing", "the existing mount, unchanged",
		                            "the formatting record, for the retry",
		                            "the formatting record",
		                            "the function bound to its driver, for the retry" };
	struct str text AUTO(str_clear) = STR_INIT(4000), line AUTO(str_clear) = STR_INIT(8000);
	const char *bold = is_final(err->code) ? "**" : "";

	doc_lines_plain(a->w.nvme.root, err->msg, &text);
	str_addf(&line, "| %s | %s | %s%s%s | %s | %s |\n", rows[i].what,
	         rows[i].fs_type ? "mount" : "block", bold, err_code_name(err->code), bold,
	         text.ptr, left[rows[i].left]);
	doc_lines_put(i, line.ptr);
}

START_TEST(the_document_has_this_table)
{
	SKIP_UNLESS_LOOP();
	SKIP_IF(getenv("CK_RUN_CASE") != NULL, "a_failed_stage_leaves_nothing writes its lines");
	doc_lines_check("test/reports/error-paths.md", "NodeStageVolume",
	                "| what is wrong | type | code | text | what is left |\n"
	                "| --- | --- | --- | --- | --- |\n",
	                ARRAY_LEN(rows));
}
END_TEST

START_TEST(a_failed_stage_leaves_nothing)
{
	size_t i = (size_t)_i;
	/* Short only where the deadline is the point of the test: a busy machine is slow. */
	bool waits = rows[i].code == ERR_DEADLINE;
	struct attempt a = { .held = -1, .deadline = deadline_in_ms(waits ? 700 : 30000) };
	struct err err = ERR_INIT;
	struct state was, is;

	SKIP_UNLESS_LOOP();
	node_world_init(&a.w);
	a.d = nvme_world_add(&a.w.nvme, 1, UUID, 320 * MIB);
	a.r = stage_request(&a.w, a.d, rows[i].fs_type, MODE_SINGLE_NODE_WRITER);
	rows[i].spoil(&a);
	if (a.flag) {
		a.r.cap.mount_flags = &a.flag;
		a.r.cap.n_mount_flags = 1;
	}
	was = state_of(&a);
	ck_assert_msg(node_stage(&a.w.node, &a.r, a.deadline, &err) == -1, "%s: staged",
	              rows[i].what);
	spawn_set_path(NULL);
	write_row(i, &a, &err);
	ck_assert_msg(err.code == rows[i].code, "%s: %s: %s", rows[i].what, err_code_name(err.code),
	              err.msg);
	ck_assert_msg(strstr(err.msg, rows[i].text) != NULL, "%s: %s", rows[i].what, err.msg);
	ck_assert_msg(err.kind == kind_of(rows[i].what), "%s: kind %d: %s", rows[i].what, err.kind,
	              err.msg);
	ck_assert_msg(str_has_prefix(err.msg, "stage volume " VOLUME_ID ": "), "%s", err.msg);
	is = state_of(&a);
	check_unchanged(i, &was, &is);
	if (a.held >= 0)
		close(a.held);
	state_clear(&was);
	state_clear(&is);
	node_world_clear(&a.w);
}
END_TEST

/* ---- a disk that is replaced during the call ---- */

static struct {
	struct nvme_world *world;
	struct nvme_disk *d;
	/* a descriptor of the old loop device, so that the new one gets another number; -1: none */
	int keep;
	bool keeps;
	unsigned finds;
} swap;

/* The kernel's part right after the last probe of device_wait(). */
static int find_and_swap(const struct device_world *w, const char *pci,
                         const struct device_want *want, struct device *ret, struct str *why,
                         struct err *err)
{
	int rc = device_kind_nvme.find(w, pci, want, ret, why, err);

	if (rc == 0 && ++swap.finds == 2) {
		if (swap.keeps)
			swap.keep = open(swap.d->loop, O_RDONLY | O_CLOEXEC);
		nvme_world_reattach(swap.world, swap.d);
	}
	return rc;
}

START_TEST(a_disk_that_comes_anew_under_a_stage_is_no_final_failure)
{
	struct device_kind swapping = device_kind_nvme;
	const struct device_kind *const kinds[] = { &swapping, NULL };
	struct attempt a = { .held = -1 };
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	node_world_init(&a.w);
	a.d = nvme_world_add(&a.w.nvme, 1, UUID, 320 * MIB);
	a.r = stage_request(&a.w, a.d, _i & 2 ? NULL : "ext4", MODE_SINGLE_NODE_WRITER);
	swapping.find = find_and_swap;
	a.w.node.o.world.kinds = kinds;
	swap.world = &a.w.nvme;
	swap.d = a.d;
	swap.keep = -1;
	swap.keeps = _i & 1;
	ck_assert_int_eq(node_stage(&a.w.node, &a.r, soon(), &err), -1);
	ck_assert_uint_ge(swap.finds, 2);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "removed during the call"),
	              "%s: %s", err_code_name(err.code), err.msg);
	ck_assert_uint_eq(mounts_below(a.w.nvme.root), 0);
	node_world_stage(&a.w, &a.r);
	if (swap.keep >= 0)
		close(swap.keep);
	node_world_clear(&a.w);
}
END_TEST

SUITE_AROUND("stage errors", 60, doc_lines_begin, doc_lines_end,
             LOOP(a_failed_stage_leaves_nothing, ARRAY_LEN(rows)), the_document_has_this_table,
             LOOP(a_disk_that_comes_anew_under_a_stage_is_no_final_failure, 4));
