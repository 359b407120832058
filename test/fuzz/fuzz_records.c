/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a file written by a driver, kubelet or a user: the first byte chooses which one. A
 * record only matches the disk, volume and attachment that it was written for.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/failing.h"
#include "common/mem.h"
#include "host/attachment_file.h"
#include "host/request.h"
#include "host/state_file.h"
#include "host/watch_config.h"
#include "node/disk/queue_settings.h"
#include "node/target/kubelet.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"
#include "test/lib/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define DRIVER "csi.snap.nvidia.com"
#define POD_DIR "/kubelet/pods/uid-1/volumes/kubernetes.io~csi/pv-1"
#define BLOCK_DIR "/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv-1/data"

static struct tree tree;
static struct node node;
static struct device disk = { .path = "/dev/nvme0n1", .uuid = "u", .nsid = 1, .size = 4096 };
static char *proc, *plugin_dir, *kubelet, *state_dir;

static void tidy(void)
{
	free(proc);
	free(plugin_dir);
	free(kubelet);
	free(state_dir);
	tree_clear(&tree);
}

static void set_up(void)
{
	tree_unpack(&tree, "s3-multipath-attached");
	tree_write(&tree, "/proc/sys/kernel/random/boot_id", "boot-1\n");
	proc = tree_path(&tree, "/proc");
	plugin_dir = tree_path(&tree, "/plugin");
	kubelet = tree_path(&tree, "/kubelet");
	state_dir = tree_path(&tree, "/state");
	node.o = (struct node_options) { .world = { .sysfs = tree.sysfs, .dev = tree.dev },
		                         .proc_root = proc,
		                         .plugin_dir = plugin_dir,
		                         .emulation = EMULATION_NVME };
	disk.devno = makedev(259, 1);
	atexit(tidy);
}

/* ---- records of disks ---- */

static const struct disk_record record = { "pvc-1", &disk, "ext4", 7, "uid-1", 0 };
#define FIRST_LINES "volume=pvc-1\nuuid=u\nnsid=1\nsize=4096\nfilesystem=ext4\n"

/* The record names its owner in whole lines, and is not truncated. */
static void check_match(const char *text)
{
	if (!str_has_prefix(text, FIRST_LINES) || !str_has_suffix(text, "\n") ||
	    (!str_has_suffix(text, "\nattachment=uid-1\n") &&
	     !(str_has_suffix(text, "\nattachment=\n") &&
	       state_file_has_line(text, "boot", "boot-1") &&
	       state_file_has_line(text, "diskseq", "7"))))
		abort();
}

static void ask_record(enum disk_record_kind kind, const uint8_t *data, size_t n)
{
	char *path AUTO(free) = disk_record_path(&node, "pvc-1", kind);
	char *text AUTO(free) = NULL, *what AUTO(free) = NULL, *volume AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct device dev;
	dev_t fs;

	tree_write_bytes(&tree, path + strlen(tree.root), data, n);
	if (state_file_read(path, &text, &err))
		err_clear(&err);
	if (disk_record_read(&node, "pvc-1", kind, &dev, &fs, &err) < 0)
		err_clear(&err);
	if (kind != DISK_RECORD_UNSTAGE) {
		if (disk_record_matches(&node, kind, &record, &err) == 0)
			check_match(text);
	} else if (disk_record_unstaging(&node, &disk, "pvc-2", &volume, &err) == 0 &&
	           !state_file_has_line(text, "volume", volume)) {
		abort();
	}
	err_clear(&err);
	if (text) {
		what = disk_record_describe(strrchr(path, '/') + 1, text);
		(void)disk_record_is_outdated(&node, text);
	}
	if (disk_records_end(&node, "pvc-2", &disk, 7, false, &err))
		err_clear(&err);
	if (state_file_remove(path, &err)) /* disk_records_end() may have */
		abort();
}

static void ask_mkfs(const uint8_t *data, size_t n)
{
	ask_record(DISK_RECORD_MKFS, data, n);
}

static void ask_e2fsck(const uint8_t *data, size_t n)
{
	ask_record(DISK_RECORD_E2FSCK, data, n);
}

static void ask_unstage(const uint8_t *data, size_t n)
{
	ask_record(DISK_RECORD_UNSTAGE, data, n);
}

static void ask_settings(const uint8_t *data, size_t n)
{
	char *path AUTO(free) = disk_record_path(&node, "pvc-1", DISK_RECORD_SETTINGS);
	struct err err = ERR_INIT;

	tree_write_bytes(&tree, path + strlen(tree.root), data, n);
	queue_settings_restore(&node, "pvc-1");
	if (state_file_remove(path, &err)) /* the restore may have */
		abort();
}

static void check_error(void *arg, const struct failing_error *e)
{
	(void)arg;
	if (!*e->volume || e->first < 0 || e->last < 0 || e->err.code == ERR_OK)
		abort();
}

static void ask_errors(const uint8_t *data, size_t n)
{
	char *path AUTO(free) = xasprintf("%s/%s", plugin_dir, FAILING_FILE);
	const struct failing_options o = { .path = path };
	struct err err = ERR_INIT;

	tree_write_bytes(&tree, path + strlen(tree.root), data, n);

	if (failing_read(path, check_error, NULL, &err) || failing_start(&o, &err))
		err_clear(&err);
	failing_stop(deadline_in_ms(0));
}

/* ---- files of others ---- */

static void ask_kubelet(const char *dir, const char *below, const uint8_t *data, size_t n)
{
	struct kubelet_volume_dir v AUTO(kubelet_volume_dir_clear) = { .since = -1 };
	char *file AUTO(free) = xasprintf("%s/vol_data.json", dir);
	char *path AUTO(free) = xasprintf("%s%s", tree.root, below);

	tree_write_bytes(&tree, file, data, n);
	kubelet_volume_dir_read(kubelet, DRIVER, path, &v);
	if (v.role != KUBELET_PUBLISHED || v.since < -1)
		abort();
}

static void ask_pod(const uint8_t *data, size_t n)
{
	ask_kubelet(POD_DIR, POD_DIR "/mount", data, n);
}

static void ask_block(const uint8_t *data, size_t n)
{
	ask_kubelet(BLOCK_DIR,
	            "/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/uid-1", data, n);
}

static void ask_state(const uint8_t *data, size_t n)
{
	struct host_state s AUTO(host_state_clear) = { .tree = NULL };
	struct err err = ERR_INIT;

	tree_write_bytes(&tree, "/state/volumes/data-1.json", data, n);
	if (host_state_read(state_dir, "boot-1", "data-1", &s, &err) == 0 &&
	    (!str_eq(s.volume, "data-1") || !s.mount || !s.uuid || !s.tag || !s.device))
		abort();
}

static void ask_attachment(const uint8_t *data, size_t n)
{
	static const struct host_args a = { .mount = "",
		                            .fs_type = "",
		                            .options = "",
		                            .format = "",
		                            .device = true,
		                            .state_dir = "/run/snap-csi" };
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct str why AUTO(str_clear) = STR_INIT(1000);
	struct host_request q = HOST_REQUEST_INIT;
	char *text AUTO(free) = xstrndup((const char *)data, n);
	struct err err = ERR_INIT;

	if (attachment_parse("the file", text, strlen(text), &f, &err))
		return;
	if (attachment_is_ready(&f, &why) && host_request_paths(&q, &a, &f, &err) == 0 &&
	    host_request_make(&q, &node, &err) == 0 && !dns1123_subdomain(q.stage.volume_id))
		abort();
	host_request_clear(&q);
}

static void ask_config(const uint8_t *data, size_t n)
{
	static const struct host_args base = { .mount = "", .fs_type = "", .options = "" };
	struct watch_config c AUTO(watch_config_clear) = WATCH_CONFIG_INIT;
	char *text AUTO(free) = xstrndup((const char *)data, n), *mount AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct host_args way;

	if (watch_config_parse("host.yaml", text, strlen(text), &c, &err))
		return;
	if (watch_config_way(&c, "data-1", &base, &way, &mount) == 0 && mount && *mount &&
	    *mount != '/')
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const files[])(const uint8_t *, size_t) = {
		ask_mkfs,  ask_e2fsck,     ask_unstage, ask_pod,      ask_block,
		ask_state, ask_attachment, ask_config,  ask_settings, ask_errors
	};

	if (n < 1)
		return 0;
	if (!proc)
		set_up();
	files[data[0] % ARRAY_LEN(files)](data + 1, n - 1);
	return 0;
}
