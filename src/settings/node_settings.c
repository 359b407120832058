/* SPDX-License-Identifier: Apache-2.0 */
/* Only assigns fields; flags_check.c checks the values of flags. */
#include "settings/node_settings.h"

#include "common/str.h"
#include "node/target/propagation.h"

enum emulation settings_emulation(const struct flags *f)
{
	return str_eq(f->emulation_mode, "virtiofs") ? EMULATION_VIRTIOFS : EMULATION_NVME;
}

struct node_options settings_node(const struct flags *f)
{
	return (struct node_options) {
		.id = f->node_id,
		.world = {
			.sysfs = f->sysfs_root,
			.dev = f->dev_root,
			.vendors = &f->node_pci_vendors,
			.snap_device_id = f->snap_device_id,
			.proc = f->proc_root,
		},
		.proc_root = f->proc_root,
		.plugin_dir = f->plugin_dir,
		.kubelet_dir = f->kubelet_dir,
		.volume_dirs = &f->volume_dirs,
		.own_mounts = propagation_matters(f->proc_root),
		.max_volumes = f->max_volumes_per_node,
		.emulation = settings_emulation(f),
		.max_formats = (unsigned)f->max_concurrent_formats,
		/*
		 * If a test sets the sysfs tree, the modules of the running kernel do not belong to
		 * that tree.
		 */
		.load_driver = f->nvme_load_driver && str_eq(f->sysfs_root, "/sys"),
		.load_virtiofs = f->virtiofs_load_driver && str_eq(f->sysfs_root, "/sys"),
		.create_vfs = f->nvme_create_vfs,
		.virtiofs_type = f->virtiofs_filesystem_type,
	};
}
