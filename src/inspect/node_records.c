/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the records in the driver's own directory: unfinished mkfs and e2fsck, and unfinished
 * unstages. Also finds the processes that use those disks now, as far as they are visible.
 * Read-only; takes no lock of a disk.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "common/file.h"
#include "common/mem.h"
#include "inspect/node_scan.h"
#include "node/holders/holders.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"

/* A call takes moments; an older record, in seconds, belongs to a call that is stuck. */
#define MOMENT_S 10
/* A tool may work on a large disk for this time, in seconds, before it is reported. */
#define LONG_S 1800

/* One file of the driver's directory. */
struct found {
	const char *name;
	char *text, *volume_id, *object;
	struct json *entry; /* the record's entry in `records` of the volume */
	int64_t age;
};

static bool names_job(const char *name, enum disk_record_kind *ret)
{
	*ret = disk_record_kind_of(name);
	return !str_has_suffix(name, ".tmp");
}

/* ---- tools ---- */

static void records_find_worker(const struct node_scan *l, const struct found *f, const char *what,
                                const struct device *dev)
{
	const struct holders_query q = { .proc_root = l->node->o.proc_root,
		                         .disk = dev->devno,
		                         .writers = true };
	struct holders h AUTO(holders_clear) = { 0 };
	char *who AUTO(free) = NULL;
	char age[64];

	holders_find(&q, l->deadline, &h);
	who = strs_join(&h.first, ", ");
	if (h.n)
		node_scan_text(f->entry, "by", who);
	if (h.n && f->age >= LONG_S)
		inspect_finding(l->report, f->object,
		                "if its device hangs, the kernel log (dmesg) shows it; the "
		                "driver continues when the tool has ended",
		                "%s has been running for %s: %s", what, inspect_age(f->age, age),
		                who);
	else if (!h.n && holders_saw_all(&h) && f->age >= MOMENT_S)
		inspect_finding(
			l->report, f->object,
			"no action needed: the next stage of the volume on this node repeats it; "
			"if kubelet sends no stage, check the events of its pod",
			"%s was started on %s %s ago and no process works on it now: it was "
			"interrupted",
			what, dev->path, inspect_age(f->age, age));
	else if (!h.n && f->age >= MOMENT_S)
		json_set_str(f->entry, "state", "could not determine whether it still runs");
}

static void records_read_job(const struct node_scan *l, const struct found *f)
{
	char *what AUTO(free) = disk_record_describe(f->name, f->text);
	struct err err = ERR_INIT;
	enum disk_record_kind kind;
	struct device dev;
	dev_t ignored;
	char age[64];
	int rc;

	if (!what || !names_job(f->name, &kind))
		return;
	node_scan_text(f->entry, "what", what);
	rc = disk_record_read(l->node, f->volume_id, kind, &dev, &ignored, &err);
	if (rc == 0) {
		node_scan_text(f->entry, "device", dev.path);
		records_find_worker(l, f, what, &dev);
	} else if (rc < 0) {
		node_scan_text(f->entry, "state", err.msg);
	} else if (disk_record_is_outdated(l->node, f->text)) {
		json_set_str(f->entry, "state", "from an earlier boot, no longer valid");
	} else {
		inspect_finding(l->report, f->object,
		                "no action needed: when the volume is attached here again, its "
		                "next stage repeats it",
		                "%s was started %s ago on a disk that this host no longer has, "
		                "and was not completed",
		                what, inspect_age(f->age, age));
	}
}

/* ---- unstages ---- */

static void records_read_unstage(const struct node_scan *l, const struct found *f)
{
	struct str who AUTO(str_clear) = STR_INIT(600);
	struct holders h AUTO(holders_clear) = { 0 };
	struct err err = ERR_INIT;
	struct holders_query q = { .proc_root = l->node->o.proc_root, .mounts = true };
	struct device dev;
	char age[64];
	int rc = disk_record_read(l->node, f->volume_id, DISK_RECORD_UNSTAGE, &dev, &q.fs, &err);

	json_set_str(f->entry, "what", "unstage");
	if (rc) {
		node_scan_text(f->entry, "state",
		               rc < 0 ? err.msg : "of a disk that this host no longer has");
		return;
	}
	q.disk = dev.devno;
	holders_find(&q, l->deadline, &h);
	holders_describe(&h, &q, dev.path, &who);
	node_scan_text(f->entry, "device", dev.path);
	node_scan_text(f->entry, "holders", who.ptr);
	/* The kernel may also hold the disk, but then there is no process to end. */
	if (f->age >= MOMENT_S && !h.n)
		inspect_finding(
			l->report, f->object,
			"kubelet repeats the unstage; the volume's last error has the reason of "
			"the last failure. If it fails again with this disk: lsblk, swapon and "
			"losetup -a show holders in the kernel",
			"its unstage was started %s ago and has not ended: %s was in use at the "
			"last attempt; %s",
			inspect_age(f->age, age), dev.path,
			holders_saw_all(&h) ? "no holder is visible now" : who.ptr);
	else if (f->age >= MOMENT_S)
		inspect_finding(
			l->report, f->object,
			"end the processes that hold it; kubelet repeats the unstage. While it "
			"is held, the volume is not detached",
			"its unstage was started %s ago and has not ended: %s is held; %s",
			inspect_age(f->age, age), dev.path, who.ptr);
}

/* ---- files ---- */

static void records_read_file(const struct node_scan *l, const char *dir, const char *name,
                              bool job)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	struct err err = ERR_INIT;
	struct found f = { .name = name };
	struct stat st;

	if (lstat(path, &st) || state_file_read(path, &f.text, &err)) {
		if (err.code)
			inspect_finding(l->report, "this node",
			                "remove the file when no call of the driver runs", "%s",
			                err.msg);
		return;
	}
	f.age = time(NULL) - st.st_mtime;
	f.volume_id = state_file_value(f.text, "volume");
	if (f.volume_id) {
		f.object = node_scan_object(f.volume_id);
		f.entry = json_object();
		json_append(inspect_list(json_sub(inspect_volume(l->report, f.volume_id), "node"),
		                         "records"),
		            f.entry);
		if (job)
			records_read_job(l, &f);
		else
			records_read_unstage(l, &f);
		json_set_int(f.entry, "since", f.age < 0 ? 0 : f.age);
	}
	free(f.text);
	free(f.volume_id);
	free(f.object);
}

static void records_read_dir(const struct node_scan *l, const char *folder, bool job)
{
	char *dir AUTO(free) = xasprintf("%s/%s", l->node->o.plugin_dir, folder);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (dir_list(dir, &names, &ignored))
		return; /* the directory is created when needed */
	for (size_t i = 0; i < names.n; i++)
		if (!str_has_suffix(names.v[i], ".tmp"))
			records_read_file(l, dir, names.v[i], job);
}

void node_scan_records(const struct node_scan *l)
{
	atomic_store(l->step, "the records below --plugin-dir, and the processes that hold disks");
	records_read_dir(l, STATE_DIR_JOBS, true);
	records_read_dir(l, STATE_DIR_UNSTAGING, false);
}

/* ---- holders ---- */

void node_scan_holders(const struct node_scan *l, const char *volume_id)
{
	struct json *node = json_sub(inspect_volume(l->report, volume_id), "node");
	const char *number = json_str(node, "device.number");
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q = { .proc_root = l->node->o.proc_root, .mounts = true };
	struct str who AUTO(str_clear) = STR_INIT(600);
	unsigned disk[2];

	if (!number || sscanf(number, "%u:%u", &disk[0], &disk[1]) != 2)
		return;
	atomic_store(l->step, "the processes that hold the device");
	q.disk = q.fs = makedev(disk[0], disk[1]);
	holders_find(&q, l->deadline, &h);
	holders_describe(&h, &q,
	                 json_str(node, "device.name") ? json_str(node, "device.name") : number,
	                 &who);
	node_scan_text(node, "holders", who.ptr);
}
