/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the hardware looks in sysfs: PCI functions, NVMe controllers, namespaces. Names, attributes
 * and link targets follow the recorded trees of real kernels; what discovery does not need is left
 * out.
 *
 * A namespace with native multipath is three things: a hidden path below its controller
 * (nvme0c1n1), the disk
 * below the subsystem (nvme0n1) and the disk's node in /dev; they appear in this order and vanish
 * in the
 * opposite one, as in the kernel. Called with fabric->lock held.
 */
#include "test/sim/fabric/fabric_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

#define SYS "sys/"
#define NVME_DRIVER "bus/pci/drivers/nvme"
#define MODEL "NVIDIA BlueField NVMe SNAP Controller   "
#define SERIAL "SNAP0000000000000001"
#define FIRMWARE "1.0     "
#define CONTROLLER_MAJOR 245
#define GENERIC_MAJOR 244
#define NVME_CLASS "0x010802\n"
#define ATTRIBUTE_MAX 4096

static bool multipath(const struct host *h)
{
	return !h->fabric->options->no_multipath;
}

/* A link in a class or bus directory, which is its own home. */
static void devtree_entry(struct devtree *t, const char *dir, const char *name, const char *target)
{
	char *below_root AUTO(free) = xasprintf(SYS "%s", dir);

	devtree_dir(t, below_root);
	devtree_link(t, below_root, name, dir, target);
}

static void devtree_remove_entry(struct devtree *t, const char *dir, const char *name)
{
	char *path AUTO(free) = xasprintf(SYS "%s/%s", dir, name);

	devtree_remove(t, path);
}

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
	             multipath(h) ? "Y" : "N");
	devtree_attr(t, SYS "module/nvme_core/parameters", "io_timeout", "30\n");
	devtree_attr(t, SYS "module/nvme/parameters", "io_queue_depth", "1024\n");
	build_port(t, "0000:00:04.0");
	build_port(t, "0000:00:05.0");
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

/* Identifier string, VPD-R, end tag: as a BlueField has it, with the function's VUID as VU. */
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
	char *text AUTO(free) =
		xasprintf("%sPCI_CLASS=10802\nPCI_ID=15B3:6001\nPCI_SUBSYS_ID=15B3:0000\n"
	                  "PCI_SLOT_NAME=%s\n"
	                  "MODALIAS=pci:v000015B3d00006001sv000015B3sd00000000bc01sc08i02\n",
	                  fn->bound ? "DRIVER=nvme\n" : "", fn->bdf);

	devtree_replace(t, dir, "uevent", text);
}

static void build_sriov(struct devtree *t, const struct function *pf, const char *dir)
{
	const struct options *o = pf->host->fabric->options;

	devtree_attr(t, dir, "sriov_totalvfs", "%u\n", o->vfs);
	devtree_attr(t, dir, "sriov_numvfs", "%u\n", o->no_vfs ? 0 : o->vfs);
	devtree_attr(t, dir, "sriov_offset", "1\n");
	devtree_attr(t, dir, "sriov_stride", "1\n");
	devtree_attr(t, dir, "sriov_vf_device", "6001\n");
	/* What the Go plugin sets before it makes VFs: they wait for a bind. */
	devtree_attr(t, dir, "sriov_drivers_autoprobe", "%d\n", o->no_vfs || o->bind_vfs);
}

/* virtfnN of the PF and physfn of the VF. */
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

int function_appear(struct function *fn, struct err *err)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *dir AUTO(free) = xasprintf("new/%s", fn->bdf);
	char *final AUTO(free) = xasprintf(SYS "%s", fn->dir);

	devtree_dir(&t, dir);
	devtree_attr(&t, dir, "class", NVME_CLASS);
	devtree_attr(&t, dir, "vendor", "0x15b3\n");
	devtree_attr(&t, dir, "device", "0x6001\n");
	devtree_attr(&t, dir, "subsystem_vendor", "0x15b3\n");
	devtree_attr(&t, dir, "subsystem_device", "0x0000\n");
	devtree_attr(&t, dir, "revision", "0x01\n");
	devtree_attr(&t, dir, "numa_node", "-1\n");
	devtree_attr(&t, dir, "driver_override", "(null)\n");
	devtree_attr(&t, dir, "modalias",
	             "pci:v000015B3d00006001sv000015B3sd00000000bc01sc08i02\n");
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

/* Lowest X that neither a controller nor a subsystem has. */
static unsigned free_instance(const struct host *h)
{
	for (unsigned x = 0;; x++) {
		bool taken = false;

		for (size_t i = 0; i < h->n; i++)
			taken |= h->functions[i].bound &&
			         (h->functions[i].instance == x || h->functions[i].subsystem == x);
		if (!taken)
			return x;
	}
}

static bool shares_subsystem(const struct function *fn)
{
	return fn->kind != FUNCTION_HOTPLUG && !fn->host->fabric->options->one_nsid;
}

/* The PF and its VFs are controllers of one subsystem, unless every volume has its own. */
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
		if (h->functions[i].bound && h->functions[i].subsystem == subsystem)
			return true;
	return false;
}

static char *subsystem_dir(const struct function *fn)
{
	return xasprintf("devices/virtual/nvme-subsystem/nvme-subsys%u", fn->subsystem);
}

static void build_subsystem(struct devtree *t, const struct function *fn)
{
	char *home AUTO(free) = subsystem_dir(fn);
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
	char *subsystem AUTO(free) = subsystem_dir(fn);

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

int function_bind(struct function *fn, struct err *err)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *dir AUTO(free) = xasprintf(SYS "%s", fn->dir);

	if (fn->bound || !fn->present)
		return 0;
	fn->instance = free_instance(fn->host);
	fn->subsystem = subsystem_of(fn);
	fn->bound = true;
	write_uevent(&t, fn, dir);
	devtree_link(&t, dir, "driver", fn->dir, NVME_DRIVER);
	devtree_entry(&t, NVME_DRIVER, fn->bdf, fn->dir);
	build_subsystem(&t, fn);
	build_controller(&t, fn);
	for (struct disk *k = fn->disks; k; k = k->next)
		if (disk_appear(fn, k, err))
			return -1;
	return devtree_end(&t, err);
}

void function_unbind(struct function *fn)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *dir AUTO(free) = xasprintf(SYS "%s", fn->dir);
	char *name AUTO(free) = xasprintf("nvme%u", fn->instance);
	char *subsystem AUTO(free) = NULL;

	if (!fn->bound)
		return;
	for (struct disk *k = fn->disks; k; k = k->next)
		disk_vanish(fn, k);
	subsystem = subsystem_dir(fn);
	fn->bound = false;
	devtree_remove_entry(&t, subsystem, name);
	devtree_remove_entry(&t, "class/nvme", name);
	devtree_remove_entry(&t, fn->dir, "nvme");
	devtree_remove_entry(&t, NVME_DRIVER, fn->bdf);
	devtree_remove_entry(&t, fn->dir, "driver");
	write_uevent(&t, fn, dir);
	if (!subsystem_is_used(fn->host, fn->subsystem)) {
		char *whole AUTO(free) = xasprintf(SYS "%s", subsystem);
		char *link AUTO(free) = xasprintf("nvme-subsys%u", fn->subsystem);

		devtree_remove_entry(&t, "class/nvme-subsystem", link);
		devtree_remove(&t, whole);
	}
}

/* ---- namespaces ---- */

/* Lowest Y of nvmeXnY that is free in the subsystem. */
static unsigned free_head(const struct function *fn)
{
	const struct host *h = fn->host;

	for (unsigned y = 1;; y++) {
		bool taken = false;

		for (size_t i = 0; i < h->n; i++) {
			const struct function *other = &h->functions[i];

			if (!other->bound || other->subsystem != fn->subsystem)
				continue;
			for (const struct disk *k = other->disks; k; k = k->next)
				taken |= k->visible && k->head == y;
		}
		if (!taken)
			return y;
	}
}

/* What a path, a head and a plain disk have in common. */
static void write_block(struct devtree *t, const struct function *fn, const struct disk *k,
                        const char *dir, const char *home, bool hidden)
{
	char *holders AUTO(free) = xasprintf("%s/holders", dir);
	char *slaves AUTO(free) = xasprintf("%s/slaves", dir);
	char *queue AUTO(free) = xasprintf("%s/queue", dir);

	devtree_dir(t, dir);
	devtree_dir(t, holders);
	devtree_dir(t, slaves);
	devtree_dir(t, queue);
	devtree_attr(t, queue, "logical_block_size", "%u\n",
	             fn->host->fabric->options->sector_size);
	devtree_attr(t, queue, "rotational", "0\n");
	devtree_attr(t, dir, "nsid", "%" PRIu32 "\n", k->nsid);
	devtree_attr(t, dir, "size", "%" PRIu64 "\n", k->bytes / 512);
	devtree_attr(t, dir, "ro", "0\n");
	devtree_attr(t, dir, "removable", "0\n");
	devtree_attr(t, dir, "hidden", "%d\n", hidden);
	devtree_attr(t, dir, "diskseq", "%" PRIu64 "\n", k->loop.diskseq);
	if (fn->host->fabric->options->hide_uuid) {
		devtree_attr(t, dir, "wwid", "nvme.15b3-%s-%s-%08" PRIx32 "\n", SERIAL, "SNAP",
		             k->nsid);
	} else {
		devtree_attr(t, dir, "uuid", "%s\n", k->uuid);
		devtree_attr(t, dir, "wwid", "uuid.%s\n", k->uuid);
	}
	if (!hidden)
		devtree_attr(t, dir, "dev", "%u:%u\n", major(k->loop.devno), minor(k->loop.devno));
	devtree_link(t, dir, "subsystem", home, "class/block");
}

static void write_disk_uevent(struct devtree *t, const struct disk *k, const char *dir)
{
	devtree_attr(t, dir, "uevent",
	             "MAJOR=%u\nMINOR=%u\nDEVNAME=%s\nDEVTYPE=disk\nDISKSEQ=%" PRIu64 "\n",
	             major(k->loop.devno), minor(k->loop.devno), k->name, k->loop.diskseq);
}

static char *controller_home(const struct function *fn)
{
	return xasprintf("%s/nvme/nvme%u", fn->dir, fn->instance);
}

/* Directory below sys of the disk itself. */
static char *disk_home(const struct function *fn, const struct disk *k)
{
	char *parent AUTO(free) = multipath(fn->host) ? subsystem_dir(fn) : controller_home(fn);

	return xasprintf("%s/%s", parent, k->name);
}

static void build_path(struct devtree *t, const struct function *fn, const struct disk *k)
{
	char *parent AUTO(free) = controller_home(fn);
	char *home AUTO(free) = xasprintf("%s/%s", parent, k->path);
	char *final AUTO(free) = xasprintf(SYS "%s", home);
	char *dir AUTO(free) = xasprintf("new/%s", k->path);
	char *device AUTO(free) = xasprintf("../../nvme%u", fn->instance);

	write_block(t, fn, k, dir, home, true);
	devtree_attr(t, dir, "uevent", "DEVTYPE=disk\nDISKSEQ=%" PRIu64 "\n", k->loop.diskseq);
	devtree_symlink(t, dir, "device", device);
	devtree_rename(t, dir, final);
	devtree_entry(t, "class/block", k->path, home);
	devtree_entry(t, "block", k->path, home);
}

/* The character device beside each disk; nobody may take it for one. */
static void build_generic(struct devtree *t, const char *parent, const struct disk *k,
                          const char *device)
{
	char *name AUTO(free) = xasprintf("ng%s", k->name + strlen("nvme"));
	char *home AUTO(free) = xasprintf("%s/%s", parent, name);
	char *final AUTO(free) = xasprintf(SYS "%s", home);
	char *dir AUTO(free) = xasprintf("new/%s", name);

	devtree_dir(t, dir);
	devtree_attr(t, dir, "dev", "%d:%u\n", GENERIC_MAJOR, k->head);
	devtree_attr(t, dir, "uevent", "MAJOR=%d\nMINOR=%u\nDEVNAME=%s\n", GENERIC_MAJOR, k->head,
	             name);
	devtree_symlink(t, dir, "device", device);
	devtree_link(t, dir, "subsystem", home, "class/nvme-generic");
	devtree_rename(t, dir, final);
	devtree_entry(t, "class/nvme-generic", name, home);
}

static void build_disk(struct devtree *t, const struct function *fn, const struct disk *k)
{
	char *home AUTO(free) = disk_home(fn, k);
	char *final AUTO(free) = xasprintf(SYS "%s", home);
	char *dir AUTO(free) = xasprintf("new/%s", k->name);
	char *device AUTO(free) = multipath(fn->host)
	                                  ? xasprintf("../../nvme-subsys%u", fn->subsystem)
	                                  : xasprintf("../../nvme%u", fn->instance);
	char *parent AUTO(free) = multipath(fn->host) ? subsystem_dir(fn) : controller_home(fn);
	char *number AUTO(free) = xasprintf("%u:%u", major(k->loop.devno), minor(k->loop.devno));

	write_block(t, fn, k, dir, home, false);
	write_disk_uevent(t, k, dir);
	devtree_symlink(t, dir, "device", device);
	devtree_rename(t, dir, final);
	devtree_entry(t, "dev/block", number, home);
	devtree_entry(t, "class/block", k->name, home);
	devtree_entry(t, "block", k->name, home);
	build_generic(t, parent, k, device);
}

static void make_node(struct devtree *t, const struct disk *k)
{
	char *path AUTO(free) = xasprintf("%s/dev/%s", t->root, k->name);

	if (!t->err.code && mknod(path, S_IFBLK | 0600, k->loop.devno))
		err_sys(&t->err, errno, "make the device node %s", path);
}

int disk_appear(struct function *fn, struct disk *k, struct err *err)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);

	if (k->visible || !fn->bound)
		return 0;
	k->head = free_head(fn);
	k->visible = true;
	snprintf(k->name, sizeof(k->name), "nvme%un%u",
	         multipath(fn->host) ? fn->subsystem : fn->instance, k->head);
	snprintf(k->path, sizeof(k->path), "nvme%uc%un%u", fn->subsystem, fn->instance, k->head);
	if (multipath(fn->host))
		build_path(&t, fn, k);
	make_node(&t, k);
	build_disk(&t, fn, k);
	return devtree_end(&t, err);
}

void disk_vanish(struct function *fn, struct disk *k)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *node AUTO(free) = xasprintf("dev/%s", k->name);
	char *home AUTO(free) = disk_home(fn, k);
	char *dir AUTO(free) = xasprintf(SYS "%s", home);
	char *number AUTO(free) = xasprintf("%u:%u", major(k->loop.devno), minor(k->loop.devno));
	char *parent AUTO(free) = multipath(fn->host) ? subsystem_dir(fn) : controller_home(fn);
	char *controller AUTO(free) = controller_home(fn);

	if (!k->visible)
		return;
	char *generic AUTO(free) = xasprintf("ng%s", k->name + strlen("nvme"));

	devtree_remove(&t, node);
	devtree_remove_entry(&t, "class/nvme-generic", generic);
	devtree_remove_entry(&t, parent, generic);
	devtree_remove_entry(&t, "dev/block", number);
	devtree_remove_entry(&t, "class/block", k->name);
	devtree_remove_entry(&t, "block", k->name);
	devtree_remove(&t, dir);
	if (multipath(fn->host)) {
		devtree_remove_entry(&t, "class/block", k->path);
		devtree_remove_entry(&t, "block", k->path);
		devtree_remove_entry(&t, controller, k->path);
	}
	k->visible = false;
}

static void replace_size(struct devtree *t, const char *home, const struct disk *k)
{
	char *dir AUTO(free) = xasprintf(SYS "%s", home);
	char *text AUTO(free) = xasprintf("%" PRIu64 "\n", k->bytes / 512);

	devtree_replace(t, dir, "size", text);
}

int disk_resized(struct function *fn, struct disk *k, struct err *err)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *home AUTO(free) = disk_home(fn, k);
	char *controller AUTO(free) = controller_home(fn);
	char *path AUTO(free) = xasprintf("%s/%s", controller, k->path);

	if (!k->visible)
		return 0;
	replace_size(&t, home, k);
	if (multipath(fn->host))
		replace_size(&t, path, k);
	return devtree_end(&t, err);
}
