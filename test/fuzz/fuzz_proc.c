/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as one file of a simulated /proc: the first byte chooses the file, the rest is its content.
 * Any user of the host chooses some of these bytes: names, command lines, mount points, control
 * groups.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "flags/flags.h"
#include "inspect/inspect.h"
#include "node/device/device.h"
#include "node/device/partitions.h"
#include "node/device/virtiofs_users.h"
#include "node/holders/fd_tables.h"
#include "node/holders/holders.h"
#include "node/host/pre_stop.h"
#include "test/lib/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define POD "0b0f1a7e-1111-4222-8333-00000000000a"
#define VOLUME_DIR "/kubelet/pods/" POD "/volumes/kubernetes.io~csi/pv-1"

static struct tree tree;
static char *proc, *kubelet, *mounts;

static void tidy(void)
{
	free(proc);
	free(kubelet);
	free(mounts);
	tree_clear(&tree);
}

static void set_up(void)
{
	tree_unpack(&tree, NULL);
	proc = tree_path(&tree, "/proc");
	kubelet = tree_path(&tree, "/kubelet");
	mounts = xasprintf("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
	                   "9 1 259:1 / %s" VOLUME_DIR "/mount rw - ext4 /dev/nvme0n1 rw\n",
	                   tree.root);
	tree_write(&tree, "/proc/self/mountinfo", mounts);
	tree_write(&tree, "/proc/1/mountinfo", mounts);
	tree_link(&tree, "/proc/self/exe", "/snap-csi-plugin");
	tree_link(&tree, "/proc/1/exe", "/usr/lib/systemd/systemd");
	tree_link(&tree, "/proc/7/ns/mnt", "mnt:[7]");
	tree_link(&tree, "/proc/7/cwd", "/");
	tree_mkdir(&tree, "/proc/7/fd");
	tree_write(&tree, "/sys/module/virtiofs/refcnt", "1\n");
	tree_write(&tree, VOLUME_DIR "/vol_data.json",
	           "{\"volumeHandle\":\"pvc-1\",\"driverName\":\"csi.snap.nvidia.com\"}");
	atexit(tidy);
}

/* ---- questions ---- */

static void ask_holders(void)
{
	struct holders_query q = {
		.proc_root = proc, .disk = makedev(259, 1), .fs = makedev(0, 50), .mounts = true
	};

	for (int i = 0; i < 3; i++) {
		struct str text AUTO(str_clear) = STR_INIT(1000);
		struct holders h AUTO(holders_clear) = { 0 };

		q.captured = i > 0;
		q.unshared = i > 1;
		holders_find(&q, deadline_in_ms(10000), &h);
		holders_describe(&h, &q, "/dev/nvme0n1", &text);
		if (h.n > 1 || !is_shown_as_it_is(text.ptr))
			abort();
	}
}

/* Without a mount of the tag, the only reference may belong to a single filesystem. */
static void ask_share(void)
{
	const struct device_world w = { .sysfs = tree.sysfs, .proc = proc };
	char *text AUTO(free) = tree_read(&tree, "/proc/self/mountinfo");
	struct err err = ERR_INIT;

	if (virtiofs_unused(&w, "tag", &err) == 0 && !strstr(text, "virtiofs"))
		abort();
	err_clear(&err);
	/* An unknown tag is unused only if no tag is mounted at all. */
	if (virtiofs_unused(&w, "", &err) == 0)
		abort();
}

static void ask_pods(void)
{
	const struct pre_stop_options o = { proc, kubelet, "csi.snap.nvidia.com" };
	struct strs left AUTO(strs_clear) = STRS_INIT;
	char *text AUTO(free) = tree_read(&tree, "/proc/7/cgroup");
	struct err err = ERR_INIT;

	if (pre_stop_scan(&o, &left, &err) == 0 && left.n == 0 && !strstr(text, POD) &&
	    !strstr(text, "0b0f1a7e_1111_4222_8333_00000000000a"))
		abort(); /* the pod has no process, so its mount is being removed */
}

static char *no_environment(const char *name)
{
	(void)name;
	return NULL;
}

static void ask_driver(void)
{
	struct strs words AUTO(strs_clear) = STRS_INIT;
	struct flags_report report = FLAGS_REPORT_INIT;
	struct err err = ERR_INIT;
	struct flags f;
	pid_t pid = 0;

	strs_add(&words, "snap-csi-plugin");
	if (inspect_running_driver(proc, 7, &words, &pid, &err))
		return;
	if (flags_parse(&f, (int)words.n, words.v, no_environment, &report) && !report.errors.n)
		abort();
	flags_report_clear(&report);
	flags_clear(&f);
}

static void ask_tables(void)
{
	struct fd_tables t AUTO(fd_tables_clear) = { .v = NULL };
	DIR *real AUTO(closedir) = opendir("/proc");

	fd_tables_begin(&t, dirfd(real), proc);
	(void)fd_tables_find(&t, 7);
}

static void ask_partitions(void)
{
	struct partitions p AUTO(partitions_clear) = PARTITIONS_INIT;
	struct err err = ERR_INIT;

	if (partitions_read(proc, makedev(259, 1), &p, &err))
		abort();
	for (size_t i = 0; i < p.n; i++)
		if (!partitions_have(&p, p.v[i].devno) || !*p.v[i].name)
			abort();
	ask_holders();
}

static const struct {
	const char *path;
	void (*ask)(void);
} files[] = {
	{ "/proc/7/mountinfo", ask_holders },   { "/proc/7/comm", ask_holders },
	{ "/proc/self/mountinfo", ask_share },  { "/proc/7/cgroup", ask_pods },
	{ "/proc/7/cmdline", ask_driver },      { "/proc/self/status", ask_tables },
	{ "/proc/partitions", ask_partitions },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *path;

	if (n < 1)
		return 0;
	if (!proc)
		set_up();
	path = files[data[0] % ARRAY_LEN(files)].path;
	tree_write_bytes(&tree, path, data + 1, n - 1);
	files[data[0] % ARRAY_LEN(files)].ask();
	if (strcmp(path, "/proc/self/mountinfo") == 0)
		tree_write(&tree, path, mounts);
	else
		tree_remove(&tree, path);
	return 0;
}
