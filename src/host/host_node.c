/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the node service for a command. If sysfs is a test's tree, loads no kernel modules,
 * because those of the kernel do not match the tree.
 */
#include "host/host_node.h"

#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"

/* Maximum time, in ms, that a command waits for an mkfs that has outlived its deadline. */
#define END_MS 60000

int host_node_begin(struct host_node *h, const struct host_args *a, enum emulation kind, bool vfs,
                    const char *mount, struct err *err)
{
	bool kernel = str_eq(a->sysfs, "/sys");
	struct node_options o = {
		.id = "",
		.world = {
			.sysfs = a->sysfs,
			.dev = a->dev,
			.vendors = &a->vendors,
			.snap_device_id = a->snap_device_id,
			.proc = a->proc,
		},
		.proc_root = a->proc,
		.plugin_dir = a->state_dir,
		.kubelet_dir = a->state_dir,
		.emulation = kind,
		.load_driver = kernel && kind == EMULATION_NVME,
		.load_virtiofs = kernel,
		.create_vfs = vfs,
		.virtiofs_type = a->virtiofs_type,
	};

	*h = (struct host_node) { .dirs = STRS_INIT };
	if (!str_empty(mount))
		strs_add(&h->dirs, mount);
	o.volume_dirs = &h->dirs;
	node_init(&h->node, &o);
	return node_boot_id(&h->node, h->boot, err);
}

void host_node_end(struct host_node *h)
{
	node_wait_jobs(&h->node, deadline_in_ms(END_MS));
	node_clear(&h->node);
	strs_clear(&h->dirs);
}

char *host_staging_path(const struct host_args *a, const char *mount)
{
	return *mount ? xstrdup(mount) : xasprintf("%s/devices", a->state_dir);
}

char *host_link_path(const struct host_args *a, const char *volume)
{
	return xasprintf("%s/snap-csi/%s", a->dev, volume);
}

int host_link_check(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode))
		return 0;
	return err_set(err, ERR_EXISTS,
	               "%s exists and is not a link: it is left alone; move it away, then retry",
	               path);
}
