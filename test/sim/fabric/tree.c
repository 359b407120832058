/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bus, PCI functions and NVMe controllers in sysfs. Names, attributes and link targets follow
 * recorded trees of real kernels; entries that the driver's discovery does not need are omitted.
 */
#include "test/sim/fabric/tree.h"

#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/sim/fabric/devtree.h"
#include "test/sim/fabric/tree_disk.h"
#include "test/sim/fabric/tree_virtio.h"
#include "test/sim/fabric/virtiofs.h"

#define SYS "sys/"
#define NVME_DRIVER "bus/pci/drivers/nvme"
#define MODEL "NVIDIA BlueField NVMe SNAP Controller   "
#define SERIAL "SNAP0000000000000001"
#define FIRMWARE "1.0     "
#define CONTROLLER_MAJOR 245
#define NVME_CLASS "0x010802\n"
#define MODALIAS "pci:v000015B3d00006001sv000015B3sd00000000bc01sc08i02"
#define ATTRIBUTE_MAX 4096

/* ---- the bus ---- */

static void build_port(struct devtree *t, const char *bdf)
{
	char *home AUTO(free) = xasprintf("devices/pci0000:00/%s", bdf);
	char *dir AUTO(free) = xasprintf(SYS "%s", home);

	devtree_dir(t, dir);
	devtree_attr(t, dir, "class", "0x060400\n");
	devtree_attr(t, dir, "vendor", "0x15b3\n");
	devtree_attr(t, dir, "device", "0x197b\n");
	devtree_attr(t, dir, "driver_override", "(null)\n");
	devtree_attr(t, dir, "uevent",
	             "DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=15B3:197B\nPCI_SLOT_NAME=%s\n", bdf);
	devtree_link(t, dir, "subsystem", home, "bus/pci");
	devtree_link(t, dir, "driver", home, "bus/pci/drivers/pcieport");
	devtree_entry(t, "bus/pci/devices", bdf, home);
	devtree_entry(t, "bus/pci/drivers/pcieport", bdf, home);
}

static void build_bus(struct devtree *t, const struct host *h)
{
	static const char *const dirs[] = {
		"new",
		"dev",
		SYS NVME_DRIVER,
		SYS "bus/pci/devices",
		SYS "bus/pci/drivers/pcieport",
		SYS "block",
		SYS "class/block",
		SYS "class/nvme",
		SYS "class/nvme-generic",
		SYS "class/nvme-subsystem",
		SYS "dev/block",
		SYS "devices/virtual/nvme-subsystem",
		SYS "module/nvme/parameters",
		SYS "module/nvme_core/parameters",
	};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		devtree_dir(t, dirs[i]);
	devtree_fifo(t, SYS NVME_DRIVER, "bind");
	devtree_fifo(t, SYS NVME_DRIVER, "unbind");
	devtree_fifo(t, SYS "bus/pci", "drivers_probe");
	devtree_attr(t, SYS "bus/pci", "drivers_autoprobe", "1\n");
	devtree_link(t, SYS NVME_DRIVER, "module", NVME_DRIVER, "module/nvme");
	devtree_attr(t, SYS "module/nvme_core/parameters", "multipath", "%s\n",
	             host_is_multipath(h) ? "Y" : "N");
	devtree_attr(t, SYS "module/nvme_core/parameters", "io_timeout", "30\n");
	devtree_attr(t, SYS "module/nvme/parameters", "io_queue_depth", "1024\n");
	virtio_build_bus(t, h);
	build_port(t, "0000:00:04.0");
}

int host_build(struct host *h, struct err *err)
{
	struct devtree t = DEVTREE_INIT(h->root);

	devtree_dir(&t, "");
	build_bus(&t, h);
	return devtree_end(&t, err);
}

bool host_autoprobe(const struct host *h)
{
	char *path AUTO(free) =
		xasprintf("%s/" SYS "%s/sriov_drivers_autoprobe", h->root, h->functions[0].dir);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	return file_read_line(path, ATTRIBUTE_MAX, &text, &err) == 0 && str_eq(text, "1");
}

/* ---- functions ---- */

/* One field of a VPD-R section: keyword, length, value. */
static size_t vpd_field(unsigned char *at, const char *keyword, const char *value)
{
	size_t n = strlen(value);

	memcpy(at, keyword, 2);
	at[2] = (unsigned char)n;
	memcpy(at + 3, value, n);
	return n + 3;
}

/* Identifier string, VPD-R, end tag, as on a BlueField; the VU is the function's VUID. */
static void build_vpd(struct devtree *t, const struct function *fn, const char *dir)
{
	static const char board[] = "BlueField-3 DPU";
	unsigned char vpd[256] = { 0x82, sizeof(board) - 1, 0 };
	size_t start = 3 + sizeof(board) - 1, at = start + 3;
	char vuid[32];

	function_vuid(fn->host->name, fn->kind, fn->index, vuid);
	memcpy(vpd + 3, board, sizeof(board) - 1);
	at += vpd_field(vpd + at, "PN", "900-9D3B6-00CV-A");
	at += vpd_field(vpd + at, "SN", "MT2328XZ17DF");
	at += vpd_field(vpd + at, "VU", vuid);
	at += vpd_field(vpd + at, "RV", "\x01");
	vpd[start] = 0x90;
	vpd[start + 1] = (unsigned char)((at - start - 3) & 0xff);
	vpd[start + 2] = 0;
	vpd[at++] = 0x78;
	devtree_bytes(t, dir, "vpd", vpd, at);
}

static void write_uevent(struct devtree *t, const struct function *fn, const char *dir)
{
	const char *driver = fn->bound ? function_driver(fn) : "";
	char *text AUTO(free) = xasprintf(
		"%s%s%sPCI_CLASS=%s\nPCI_ID=%s\nPCI_SUBSYS_ID=%s\nPCI_SLOT_NAME=%s\n"
		"MODALIAS=%s\n",
		fn->bound ? "DRIVER=" : "", driver, fn->bound ? "\n" : "",
		fn->fs ? "18000" : "10802", fn->fs ? "1AF4:105A" : "15B3:6001",
		fn->fs ? "1AF4:1100" : "15B3:0000", fn->bdf, fn->fs ? VIRTIO_MODALIAS : MODALIAS);

	devtree_replace(t, dir, "uevent", text);
}

static void build_sriov(struct devtree *t, const struct function *pf, const char *dir)
{
	const struct sim_options *o = pf->host->fabric->options;

	devtree_attr(t, dir, "sriov_totalvfs", "%u\n", o->vfs);
	devtree_attr(t, dir, "sriov_numvfs", "%u\n", o->no_vfs ? 0 : o->vfs);
	devtree_attr(t, dir, "sriov_offset", "1\n");
	devtree_attr(t, dir, "sriov_stride", "1\n");
	devtree_attr(t, dir, "sriov_vf_device", "6001\n");
	/* The Go plugin sets it to 0 before it creates VFs, which then wait for a bind. */
	devtree_attr(t, dir, "sriov_drivers_autoprobe", "%d\n", o->no_vfs || o->bind_vfs);
}

/* Links virtfnN of the PF and physfn of the VF. */
static void link_to_pf(struct devtree *t, const struct function *vf, const char *dir)
{
	const struct function *pf = &vf->host->functions[0];
	char *pf_dir AUTO(free) = xasprintf(SYS "%s", pf->dir);
	char *virtfn AUTO(free) = xasprintf("virtfn%u", vf->index);
	char *to_pf AUTO(free) = xasprintf("../%s", pf->bdf);
	char *to_vf AUTO(free) = xasprintf("../%s", vf->bdf);

	devtree_symlink(t, dir, "physfn", to_pf);
	devtree_symlink(t, pf_dir, virtfn, to_vf);
}

static void write_nvme_function(struct devtree *t, const char *dir)
{
	devtree_attr(t, dir, "class", NVME_CLASS);
	devtree_attr(t, dir, "vendor", "0x15b3\n");
	devtree_attr(t, dir, "device", "0x6001\n");
	devtree_attr(t, dir, "subsystem_vendor", "0x15b3\n");
	devtree_attr(t, dir, "subsystem_device", "0x0000\n");
	devtree_attr(t, dir, "modalias", MODALIAS "\n");
}

int function_appear(struct function *fn, struct err *err)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *dir AUTO(free) = xasprintf("new/%s", fn->bdf);
	char *final AUTO(free) = xasprintf(SYS "%s", fn->dir);

	devtree_dir(&t, dir);
	if (fn->fs)
		virtio_write_function(&t, fn, dir);
	else
		write_nvme_function(&t, dir);
	devtree_attr(&t, dir, "revision", "0x01\n");
	devtree_attr(&t, dir, "numa_node", "-1\n");
	devtree_attr(&t, dir, "driver_override", "(null)\n");
	write_uevent(&t, fn, dir);
	devtree_link(&t, dir, "subsystem", fn->dir, "bus/pci");
	if (fn->kind == FUNCTION_VF)
		link_to_pf(&t, fn, dir);
	else
		build_vpd(&t, fn, dir);
	if (fn->kind == FUNCTION_PF)
		build_sriov(&t, fn, dir);
	devtree_rename(&t, dir, final);
	devtree_entry(&t, "bus/pci/devices", fn->bdf, fn->dir);
	if (devtree_end(&t, err))
		return -1;
	fn->present = true;
	return 0;
}

void function_vanish(struct function *fn)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *dir AUTO(free) = xasprintf(SYS "%s", fn->dir);

	function_unbind(fn);
	devtree_remove_entry(&t, "bus/pci/devices", fn->bdf);
	if (fn->kind == FUNCTION_VF) {
		char *virtfn AUTO(free) = xasprintf("virtfn%u", fn->index);

		devtree_remove_entry(&t, fn->host->functions[0].dir, virtfn);
	}
	devtree_remove(&t, dir);
	fn->present = false;
}

static char *override_path(const struct function *fn)
{
	return xasprintf("%s/" SYS "%s/driver_override", fn->host->root, fn->dir);
}

char *function_override(const struct function *fn)
{
	char *path AUTO(free) = override_path(fn);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	if (file_read_line(path, ATTRIBUTE_MAX, &text, &err) || str_eq(text, "(null)"))
		return xstrdup("");
	return TAKE(text);
}

/* ---- controllers ---- */

static bool has_controller(const struct function *fn)
{
	return fn->bound && !fn->fs;
}

/* The lowest number that neither a controller nor a subsystem has. */
static unsigned free_instance(const struct host *h)
{
	for (unsigned x = 0;; x++) {
		bool taken = false;

		for (size_t i = 0; i < h->n; i++)
			taken |= has_controller(&h->functions[i]) &&
			         (h->functions[i].instance == x || h->functions[i].subsystem == x);
		if (!taken)
			return x;
	}
}

static bool shares_subsystem(const struct function *fn)
{
	return fn->kind != FUNCTION_HOTPLUG && options_old_dpf(fn->host->fabric->options);
}

/* The PF and its VFs are controllers of one subsystem; with a DPF above 25.7 each has its own. */
static unsigned subsystem_of(const struct function *fn)
{
	const struct host *h = fn->host;

	for (size_t i = 0; shares_subsystem(fn) && i < h->n; i++)
		if (h->functions[i].bound && shares_subsystem(&h->functions[i]))
			return h->functions[i].subsystem;
	return fn->instance;
}

static bool subsystem_is_used(const struct host *h, unsigned subsystem)
{
	for (size_t i = 0; i < h->n; i++)
		if (has_controller(&h->functions[i]) && h->functions[i].subsystem == subsystem)
			return true;
	return false;
}

static void build_subsystem(struct devtree *t, const struct function *fn)
{
	char *home AUTO(free) = function_subsystem_dir(fn);
	char *final AUTO(free) = xasprintf(SYS "%s", home);
	char *name AUTO(free) = xasprintf("nvme-subsys%u", fn->subsystem);
	char *dir AUTO(free) = xasprintf("new/%s", name);

	if (devtree_has(t, final))
		return;
	devtree_dir(t, dir);
	devtree_attr(t, dir, "model", MODEL "\n");
	devtree_attr(t, dir, "serial", SERIAL "\n");
	devtree_attr(t, dir, "firmware_rev", FIRMWARE "\n");
	devtree_attr(t, dir, "iopolicy", "numa\n");
	devtree_attr(t, dir, "subsystype", "nvm\n");
	devtree_attr(t, dir, "subsysnqn", "nqn.2022-10.io.nvda.nvme:snap-sim-%u\n", fn->subsystem);
	devtree_attr(t, dir, "uevent", "%s", "");
	devtree_link(t, dir, "subsystem", home, "class/nvme-subsystem");
	devtree_rename(t, dir, final);
	devtree_entry(t, "class/nvme-subsystem", name, home);
}

static void build_controller(struct devtree *t, const struct function *fn)
{
	char *name AUTO(free) = xasprintf("nvme%u", fn->instance);
	char *home AUTO(free) = xasprintf("%s/nvme/%s", fn->dir, name);
	char *parent AUTO(free) = xasprintf(SYS "%s/nvme", fn->dir);
	char *final AUTO(free) = xasprintf(SYS "%s", home);
	char *dir AUTO(free) = xasprintf("new/%s", name);
	char *device AUTO(free) = xasprintf("../../../%s", fn->bdf);
	char *subsystem AUTO(free) = function_subsystem_dir(fn);

	devtree_dir(t, dir);
	devtree_attr(t, dir, "address", "%s\n", fn->bdf);
	devtree_attr(t, dir, "cntlid", "%u\n", fn->kind == FUNCTION_VF ? fn->index + 1 : 0);
	devtree_attr(t, dir, "cntrltype", "io\n");
	devtree_attr(t, dir, "dev", "%d:%u\n", CONTROLLER_MAJOR, fn->instance);
	devtree_attr(t, dir, "firmware_rev", FIRMWARE "\n");
	devtree_attr(t, dir, "model", MODEL "\n");
	devtree_attr(t, dir, "serial", SERIAL "\n");
	devtree_attr(t, dir, "queue_count", "2\n");
	devtree_attr(t, dir, "state", "live\n");
	devtree_attr(t, dir, "subsysnqn", "nqn.2022-10.io.nvda.nvme:snap-sim-%u\n", fn->subsystem);
	devtree_attr(t, dir, "transport", "pcie\n");
	devtree_attr(t, dir, "uevent", "MAJOR=%d\nMINOR=%u\nDEVNAME=%s\nNVME_TRTYPE=pcie\n",
	             CONTROLLER_MAJOR, fn->instance, name);
	devtree_symlink(t, dir, "device", device);
	devtree_link(t, dir, "subsystem", home, "class/nvme");
	devtree_dir(t, parent);
	devtree_rename(t, dir, final);
	devtree_entry(t, "class/nvme", name, home);
	devtree_entry(t, subsystem, name, home);
}

static int bind_nvme(struct devtree *t, struct function *fn, struct err *err)
{
	build_subsystem(t, fn);
	build_controller(t, fn);
	for (struct disk *k = fn->disks; k; k = k->next)
		if (disk_appear(fn, k, err))
			return -1;
	return 0;
}

/* The device can be mounted as soon as it is visible. */
static int bind_virtio(struct devtree *t, struct function *fn, struct err *err)
{
	virtio_take(fn);
	if (virtiofs_serve(fn, err))
		return -1;
	virtio_appear(t, fn);
	return 0;
}

int function_bind(struct function *fn, struct err *err)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *dir AUTO(free) = xasprintf(SYS "%s", fn->dir);
	char *driver AUTO(free) = xasprintf("bus/pci/drivers/%s", function_driver(fn));

	if (fn->bound || !fn->present)
		return 0;
	if (!fn->fs) {
		fn->instance = free_instance(fn->host);
		fn->subsystem = subsystem_of(fn);
	}
	fn->bound = true;
	write_uevent(&t, fn, dir);
	devtree_link(&t, dir, "driver", fn->dir, driver);
	devtree_entry(&t, driver, fn->bdf, fn->dir);
	if (fn->fs ? bind_virtio(&t, fn, err) : bind_nvme(&t, fn, err))
		return -1;
	return devtree_end(&t, err);
}

int function_take_virtio(struct function *fn, struct err *err)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);

	if (!fn->bound || !fn->fs || fn->fs->taken)
		return 0;
	virtio_vanish(&t, fn);
	fn->fs->there = true; /* it keeps its number */
	if (bind_virtio(&t, fn, err))
		return -1;
	return devtree_end(&t, err);
}

static void unbind_virtio(struct devtree *t, struct function *fn)
{
	virtiofs_end(fn);
	virtio_vanish(t, fn);
}

static void unbind_nvme(struct devtree *t, struct function *fn)
{
	char *name AUTO(free) = xasprintf("nvme%u", fn->instance);
	char *subsystem AUTO(free) = function_subsystem_dir(fn);

	for (struct disk *k = fn->disks; k; k = k->next)
		disk_vanish(fn, k);
	fn->bound = false;
	devtree_remove_entry(t, subsystem, name);
	devtree_remove_entry(t, "class/nvme", name);
	devtree_remove_entry(t, fn->dir, "nvme");
	if (!subsystem_is_used(fn->host, fn->subsystem)) {
		char *whole AUTO(free) = xasprintf(SYS "%s", subsystem);
		char *link AUTO(free) = xasprintf("nvme-subsys%u", fn->subsystem);

		devtree_remove_entry(t, "class/nvme-subsystem", link);
		devtree_remove(t, whole);
	}
}

void function_unbind(struct function *fn)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *dir AUTO(free) = xasprintf(SYS "%s", fn->dir);
	char *driver AUTO(free) = xasprintf("bus/pci/drivers/%s", function_driver(fn));

	if (!fn->bound)
		return;
	if (fn->fs)
		unbind_virtio(&t, fn);
	else
		unbind_nvme(&t, fn);
	fn->bound = false;
	devtree_remove_entry(&t, driver, fn->bdf);
	devtree_remove_entry(&t, fn->dir, "driver");
	write_uevent(&t, fn, dir);
}
