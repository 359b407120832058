/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace with native multipath consists of three entries: a hidden path below its controller
 * (nvme0c1n1), the disk below the subsystem (nvme0n1) and the disk's node in <dev>. They appear in
 * this order and disappear in reverse, as in the kernel. Without multipath the disk is below its
 * controller. The disk of a key/value namespace is hidden, and only its character device has a node.
 */
#include "test/sim/fabric/tree_disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "common/str.h"
#include "test/sim/fabric/devtree.h"

#define SYS "sys/"
#define SERIAL "SNAP0000000000000001"
#define GENERIC_MAJOR 244
/*
 * The number of the character device of a key/value namespace, whose node can be opened: that of
 * /dev/full, which processes hardly have open.
 */
#define KEY_VALUE_MAJOR 1
#define KEY_VALUE_MINOR 7

/* The lowest Y of nvmeXnY that is free in the subsystem. */
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

/* What identifies the namespace. Without a UUID, the kernel shows the NGUID as uuid, too. */
static void write_identifiers(struct devtree *t, const struct function *fn, const struct disk *k,
                              const char *dir)
{
	const char *u = k->uuid;

	if (fn->host->fabric->options->hide_uuid) {
		devtree_attr(t, dir, "wwid", "nvme.15b3-%s-%s-%08" PRIx32 "\n", SERIAL, "SNAP",
		             k->nsid);
	} else if (k->key_value) {
		char *nguid AUTO(free) =
			xasprintf("%.8s-%.4s-%.4s-%.4s-%s\n", u, u + 8, u + 12, u + 16, u + 20);

		devtree_attr(t, dir, "nguid", "%s", nguid);
		devtree_attr(t, dir, "uuid", "%s", nguid);
		devtree_attr(t, dir, "wwid", "eui.%s\n", u);
	} else {
		devtree_attr(t, dir, "uuid", "%s\n", u);
		devtree_attr(t, dir, "wwid", "uuid.%s\n", u);
	}
}

/* Attributes that the path, the disk with multipath and the disk without it share. */
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
	devtree_attr(t, queue, "scheduler", "none\n");
	devtree_attr(t, queue, "nr_requests", "1023\n");
	devtree_attr(t, queue, "read_ahead_kb", "128\n");
	devtree_attr(t, queue, "rq_affinity", "1\n");
	devtree_attr(t, dir, "nsid", "%" PRIu32 "\n", k->nsid);
	devtree_attr(t, dir, "size", "%" PRIu64 "\n", k->key_value ? 0 : k->bytes / 512);
	devtree_attr(t, dir, "ro", "0\n");
	devtree_attr(t, dir, "removable", "0\n");
	devtree_attr(t, dir, "hidden", "%d\n", hidden);
	devtree_attr(t, dir, "diskseq", "%" PRIu64 "\n", k->loop.diskseq);
	write_identifiers(t, fn, k, dir);
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

/* The directory of the disk, below sys. */
static char *disk_home(const struct function *fn, const struct disk *k)
{
	char *parent AUTO(free) = host_is_multipath(fn->host) ? function_subsystem_dir(fn)
	                                                      : function_controller_dir(fn);

	return xasprintf("%s/%s", parent, k->name);
}

static void build_path(struct devtree *t, const struct function *fn, const struct disk *k)
{
	char *parent AUTO(free) = function_controller_dir(fn);
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

static char *generic_name(const struct disk *k)
{
	return xasprintf("ng%s", k->name + strlen("nvme"));
}

/* The character device ngXnY next to each disk, which the driver must not treat as a disk. */
static void build_generic(struct devtree *t, const char *parent, const struct disk *k,
                          const char *device)
{
	unsigned major_no = k->key_value ? KEY_VALUE_MAJOR : GENERIC_MAJOR;
	unsigned minor_no = k->key_value ? KEY_VALUE_MINOR : k->head;
	char *name AUTO(free) = generic_name(k);
	char *home AUTO(free) = xasprintf("%s/%s", parent, name);
	char *final AUTO(free) = xasprintf(SYS "%s", home);
	char *dir AUTO(free) = xasprintf("new/%s", name);

	devtree_dir(t, dir);
	devtree_attr(t, dir, "dev", "%u:%u\n", major_no, minor_no);
	devtree_attr(t, dir, "uevent", "MAJOR=%u\nMINOR=%u\nDEVNAME=%s\n", major_no, minor_no,
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
	char *device AUTO(free) = host_is_multipath(fn->host)
	                                  ? xasprintf("../../nvme-subsys%u", fn->subsystem)
	                                  : xasprintf("../../nvme%u", fn->instance);
	char *parent AUTO(free) = host_is_multipath(fn->host) ? function_subsystem_dir(fn)
	                                                      : function_controller_dir(fn);
	char *number AUTO(free) = xasprintf("%u:%u", major(k->loop.devno), minor(k->loop.devno));

	write_block(t, fn, k, dir, home, k->key_value);
	if (!k->key_value)
		write_disk_uevent(t, k, dir);
	devtree_symlink(t, dir, "device", device);
	devtree_rename(t, dir, final);
	if (!k->key_value)
		devtree_entry(t, "dev/block", number, home);
	devtree_entry(t, "class/block", k->name, home);
	devtree_entry(t, "block", k->name, home);
	build_generic(t, parent, k, device);
}

static void make_node(struct devtree *t, const struct disk *k)
{
	char *name AUTO(free) = k->key_value ? generic_name(k) : xstrdup(k->name);
	char *path AUTO(free) = xasprintf("%s/dev/%s", t->root, name);

	if (!t->err.code &&
	    mknod(path, (k->key_value ? S_IFCHR : S_IFBLK) | 0600,
	          k->key_value ? makedev(KEY_VALUE_MAJOR, KEY_VALUE_MINOR) : k->loop.devno))
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
	         host_is_multipath(fn->host) ? fn->subsystem : fn->instance, k->head);
	snprintf(k->path, sizeof(k->path), "nvme%uc%un%u", fn->subsystem, fn->instance, k->head);
	if (host_is_multipath(fn->host))
		build_path(&t, fn, k);
	make_node(&t, k);
	build_disk(&t, fn, k);
	return devtree_end(&t, err);
}

void disk_vanish(struct function *fn, struct disk *k)
{
	struct devtree t = DEVTREE_INIT(fn->host->root);
	char *generic AUTO(free) = generic_name(k);
	char *node AUTO(free) = xasprintf("dev/%s", k->key_value ? generic : k->name);
	char *home AUTO(free) = disk_home(fn, k);
	char *dir AUTO(free) = xasprintf(SYS "%s", home);
	char *number AUTO(free) = xasprintf("%u:%u", major(k->loop.devno), minor(k->loop.devno));
	char *parent AUTO(free) = host_is_multipath(fn->host) ? function_subsystem_dir(fn)
	                                                      : function_controller_dir(fn);
	char *controller AUTO(free) = function_controller_dir(fn);

	if (!k->visible)
		return;
	devtree_remove(&t, node);
	devtree_remove_entry(&t, "class/nvme-generic", generic);
	devtree_remove_entry(&t, parent, generic);
	if (!k->key_value)
		devtree_remove_entry(&t, "dev/block", number);
	devtree_remove_entry(&t, "class/block", k->name);
	devtree_remove_entry(&t, "block", k->name);
	devtree_remove(&t, dir);
	if (host_is_multipath(fn->host)) {
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
	char *controller AUTO(free) = function_controller_dir(fn);
	char *path AUTO(free) = xasprintf("%s/%s", controller, k->path);

	if (!k->visible || k->key_value)
		return 0;
	replace_size(&t, home, k);
	if (host_is_multipath(fn->host))
		replace_size(&t, path, k);
	return devtree_end(&t, err);
}
