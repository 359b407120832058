/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtio-fs function is a PCI function of class 0180 and, once virtio-pci is bound to it, a
 * device virtioN below it. The driver virtiofs binds virtioN unless another device has its tag
 * (then virtioN stays without a driver, as in the kernel). On kernels from 6.9 on, /sys/fs/virtiofs
 * shows the tags of bound devices.
 */
#include "test/sim/fabric/tree_virtio.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define SYS "sys/"
#define FS_DRIVER "bus/virtio/drivers/virtiofs"
#define TAGS "fs/virtiofs"
#define MODALIAS "virtio:d0000001Av00001AF4"
#define CONFIG_SIZE 256
#define TAG_SIZE 36

void virtio_build_bus(struct devtree *t, const struct host *h)
{
	devtree_dir(t, SYS "bus/pci/drivers/virtio-pci");
	devtree_fifo(t, SYS "bus/pci/drivers/virtio-pci", "bind");
	devtree_fifo(t, SYS "bus/pci/drivers/virtio-pci", "unbind");
	devtree_dir(t, SYS "bus/virtio/devices");
	devtree_dir(t, SYS FS_DRIVER);
	devtree_fifo(t, SYS FS_DRIVER, "bind");
	devtree_dir(t, SYS "module/virtio_pci");
	devtree_dir(t, SYS "module/virtiofs");
	/* The count of mounts of the kernel's own type: none exist here. */
	devtree_attr(t, SYS "module/virtiofs", "refcnt", "0\n");
	if (!h->fabric->options->no_virtiofs_tags)
		devtree_dir(t, SYS TAGS);
}

/* ---- the PCI function ---- */

static void put_le32(unsigned char *at, uint32_t n)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(n >> (8 * i));
}

/* struct virtio_pci_cap; the last one has no next. */
static void put_capability(unsigned char *config, unsigned at, unsigned next, unsigned type,
                           uint32_t offset)
{
	unsigned char *c = config + at;

	c[0] = 0x09;
	c[1] = (unsigned char)next;
	c[2] = type == 5 || type == 2 ? 20 : 16;
	c[3] = (unsigned char)type;
	c[4] = type == 5 ? 0 : 4; /* BAR */
	put_le32(c + 8, offset);
	put_le32(c + 12, type == 5 ? 0 : 0x1000);
}

/*
 * The capabilities are in QEMU's positions. The window that reads the device's configuration (type
 * 5) always reads zeroes, as it is unreadable under a kernel lockdown: the tag is only known from
 * /sys/fs/virtiofs.
 */
static void write_config(struct devtree *t, const char *dir)
{
	unsigned char config[CONFIG_SIZE] = { 0xf4, 0x1a, 0x5a, 0x10, 0,    0,
		                              0x10, 0,    0x01, 0,    0x80, 0x01 };

	put_le32(config + 0x2c, 0x11001af4);
	config[0x34] = 0xc8;
	put_capability(config, 0xc8, 0xb4, 5, 0);
	put_capability(config, 0xb4, 0xa4, 2, 0x3000);
	put_capability(config, 0xa4, 0x94, 4, 0x2000);
	put_capability(config, 0x94, 0x84, 3, 0x1000);
	put_capability(config, 0x84, 0, 1, 0);
	devtree_bytes(t, dir, "config", config, sizeof(config));
}

void virtio_write_function(struct devtree *t, const struct function *fn, const char *dir)
{
	devtree_attr(t, dir, "class", "0x018000\n");
	devtree_attr(t, dir, "vendor", "0x1af4\n");
	devtree_attr(t, dir, "device", "0x105a\n");
	devtree_attr(t, dir, "subsystem_vendor", "0x1af4\n");
	devtree_attr(t, dir, "subsystem_device", "0x1100\n");
	devtree_attr(t, dir, "enable", "%d\n", fn->bound);
	devtree_attr(t, dir, "modalias", VIRTIO_MODALIAS "\n");
	write_config(t, dir);
}

/* ---- the virtio device ---- */

/* The lowest N that no function of the host uses: of virtioN, or of fs/virtiofs/N. */
static unsigned free_number(const struct host *h, bool of_tags)
{
	for (unsigned n = 0;; n++) {
		bool taken = false;

		for (size_t i = 0; i < h->n; i++) {
			const struct virtiofs *fs = h->functions[i].fs;

			if (fs && (of_tags ? fs->taken : fs->there))
				taken |= n == (of_tags ? fs->entry : fs->instance);
		}
		if (!taken)
			return n;
	}
}

static bool tag_is_known(const struct host *h, const char *tag)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->functions[i].fs && h->functions[i].fs->taken &&
		    str_eq(h->functions[i].fs->tag, tag))
			return true;
	return false;
}

static void show_tag(struct devtree *t, const struct function *fn, const char *device)
{
	char *home AUTO(free) = xasprintf(TAGS "/%u", fn->fs->entry);
	char *dir AUTO(free) = xasprintf("new/virtiofs%u", fn->fs->entry);
	char *final AUTO(free) = xasprintf(SYS "%s", home);

	devtree_dir(t, dir);
	devtree_attr(t, dir, "tag", "%s\n", fn->fs->tag);
	devtree_link(t, dir, "device", home, device);
	devtree_rename(t, dir, final);
}

static void write_device(struct devtree *t, const char *dir, const char *home, bool taken)
{
	devtree_dir(t, dir);
	devtree_attr(t, dir, "device", "0x001a\n");
	devtree_attr(t, dir, "vendor", "0x1af4\n");
	devtree_attr(t, dir, "status", "0x0000000%c\n", taken ? 'f' : '3');
	devtree_attr(t, dir, "modalias", MODALIAS "\n");
	devtree_attr(t, dir, "uevent", "%sMODALIAS=" MODALIAS "\n",
	             taken ? "DRIVER=virtiofs\n" : "");
	devtree_link(t, dir, "subsystem", home, "bus/virtio");
	if (taken)
		devtree_link(t, dir, "driver", home, FS_DRIVER);
}

void virtio_take(struct function *fn)
{
	struct virtiofs *fs = fn->fs;
	bool known = tag_is_known(fn->host, fs->tag);

	if (!fs->there)
		fs->instance = free_number(fn->host, false);
	fs->entry = free_number(fn->host, true);
	fs->there = true;
	fs->taken = !known;
}

void virtio_appear(struct devtree *t, const struct function *fn)
{
	const struct virtiofs *fs = fn->fs;
	char *name AUTO(free) = xasprintf("virtio%u", fs->instance);
	char *home AUTO(free) = xasprintf("%s/%s", fn->dir, name);
	char *dir AUTO(free) = xasprintf("new/%s", name);
	char *final AUTO(free) = xasprintf(SYS "%s", home);

	write_device(t, dir, home, fs->taken);
	devtree_rename(t, dir, final);
	devtree_entry(t, "bus/virtio/devices", name, home);
	if (!fs->taken)
		return;
	devtree_entry(t, FS_DRIVER, name, home);
	if (!fn->host->fabric->options->no_virtiofs_tags)
		show_tag(t, fn, home);
}

void virtio_vanish(struct devtree *t, struct function *fn)
{
	struct virtiofs *fs = fn->fs;
	char *name AUTO(free) = xasprintf("virtio%u", fs->instance);
	char *entry AUTO(free) = xasprintf(SYS TAGS "/%u", fs->entry);

	if (fs->taken) {
		devtree_remove(t, entry);
		devtree_remove_entry(t, FS_DRIVER, name);
	}
	devtree_remove_entry(t, "bus/virtio/devices", name);
	devtree_remove_entry(t, fn->dir, name);
	fs->there = fs->taken = false;
}
