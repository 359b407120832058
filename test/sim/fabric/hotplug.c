/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root port 00:05.0 of the host, upstream port 2e:00.0 of the DPU's switch, downstream ports
 * 2f:00.0 and up, and below each of them a bus (30 and up) with one slot, as on a BlueField.
 */
#include "test/sim/fabric/hotplug.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/mem.h"
#include "common/str.h"
#include "test/sim/base/sim.h"
#include "test/sim/fabric/devtree.h"
#include "test/sim/fabric/host_writes.h"
#include "test/sim/fabric/tree.h"

#define SYS "sys/"
#define ROOT_PORT "0000:00:05.0"
#define UPSTREAM "0000:2e:00.0"
#define ROOT_DIR "devices/pci0000:00/" ROOT_PORT
#define UPSTREAM_DIR ROOT_DIR "/" UPSTREAM

static void port_bdf(unsigned index, char buf[16])
{
	snprintf(buf, 16, "0000:2f:%02x.0", index & 0x1fU);
}

static void place_in(struct function *fn, unsigned slot)
{
	char port[16];

	port_bdf(slot, port);
	function_bdf(FUNCTION_HOTPLUG, slot, fn->bdf);
	snprintf(fn->dir, sizeof(fn->dir), UPSTREAM_DIR "/%s/%s", port, fn->bdf);
}

void hotplug_place(struct function *fn)
{
	place_in(fn, fn->index);
}

static void build_bridge(struct devtree *t, const char *bdf, const char *home, const char *vendor,
                         unsigned below)
{
	char *dir AUTO(free) = xasprintf(SYS "%s", home);

	devtree_dir(t, dir);
	devtree_attr(t, dir, "class", "0x060400\n");
	devtree_attr(t, dir, "vendor", "%s\n", vendor);
	devtree_attr(t, dir, "device", "0x197b\n");
	devtree_attr(t, dir, "secondary_bus_number", "%u\n", below);
	devtree_attr(t, dir, "subordinate_bus_number", "%u\n", below);
	devtree_attr(t, dir, "driver_override", "(null)\n");
	devtree_link(t, dir, "subsystem", home, "bus/pci");
	devtree_link(t, dir, "driver", home, "bus/pci/drivers/pcieport");
	devtree_entry(t, "bus/pci/devices", bdf, home);
	devtree_entry(t, "bus/pci/drivers/pcieport", bdf, home);
}

int hotplug_build(struct host *h, unsigned n, struct err *err)
{
	struct devtree t = DEVTREE_INIT(h->root);

	if (!n)
		return 0;
	build_bridge(&t, ROOT_PORT, ROOT_DIR, "0x8086", 0x2e);
	build_bridge(&t, UPSTREAM, UPSTREAM_DIR, "0x15b3", 0x2f);
	for (unsigned i = 0; i < n; i++) {
		char port[16], address[16];
		char *home AUTO(free) = NULL;
		char *slot AUTO(free) = xasprintf(SYS "bus/pci/slots/%u", i);

		port_bdf(i, port);
		function_bdf(FUNCTION_HOTPLUG, i, address);
		home = xasprintf(UPSTREAM_DIR "/%s", port);
		build_bridge(&t, port, home, "0x15b3", FUNCTION_HOTPLUG_BUS + i);
		devtree_dir(&t, slot);
		devtree_attr(&t, slot, "address", "%.10s\n", address);
		devtree_attr(&t, slot, "power", "1\n");
	}
	return devtree_end(&t, err);
}

/* Whether the kernel binds a plugged function. */
static bool host_binds(const struct function *fn)
{
	return !host_ignores_bind(fn) && !(fn->fs && fn->host->fabric->options->blacklist_virtio);
}

int hotplug_appear(struct function *fn, struct err *err)
{
	if (fn->kind != FUNCTION_HOTPLUG || fn->present)
		return 0;
	if (function_appear(fn, err) || (host_binds(fn) && function_bind(fn, err)))
		return -1;
	host_watch_function(fn);
	return 0;
}

/* The function that has this address now. */
static struct function *in_slot(const struct host *h, unsigned slot)
{
	char bdf[16];

	function_bdf(FUNCTION_HOTPLUG, slot, bdf);
	for (size_t i = 0; i < h->n; i++)
		if (str_eq(h->functions[i].bdf, bdf))
			return &h->functions[i];
	return NULL;
}

static unsigned slot_of(const struct function *fn)
{
	for (unsigned slot = 0;; slot++)
		if (in_slot(fn->host, slot) == fn)
			return slot;
}

/* Neither is plugged: each gets the slot of the other. */
static void swap_slots(struct function *a, struct function *b)
{
	unsigned slot = slot_of(a);

	place_in(a, slot_of(b));
	place_in(b, slot);
}

void hotplug_settle(struct function *fn)
{
	struct function *there = in_slot(fn->host, fn->index);

	if (there && there != fn && !there->present)
		swap_slots(fn, there);
}

/* ---- the switches ---- */

static bool has_volume(const struct function *fn, const char *volume)
{
	if (fn->fs && str_eq(fn->fs->volume, volume))
		return true;
	for (const struct disk *k = fn->disks; k; k = k->next)
		if (str_eq(k->volume, volume))
			return true;
	return false;
}

static struct function *of_volume(const struct fabric *f, const char *volume, const char *node)
{
	for (const struct host *h = f->hosts; h; h = h->next)
		for (size_t i = 0; i < h->n && (!node || str_eq(node, h->name)); i++)
			if (h->functions[i].kind == FUNCTION_HOTPLUG &&
			    has_volume(&h->functions[i], volume))
				return &h->functions[i];
	return NULL;
}

static struct function *find(struct fabric *f, const char *volume, const char *node, bool present,
                             struct err *err)
{
	struct function *fn;

	assert_locked(&f->lock);
	fn = of_volume(f, volume, node);
	if (!fn)
		err_set(err, ERR_NOT_FOUND, "no hot-plugged function has volume %s", volume);
	else if (fn->present != present)
		err_set(err, ERR_PRECONDITION, "the function of volume %s is %s", volume,
		        present ? "unplugged" : "plugged in");
	else
		return fn;
	return NULL;
}

int hotplug_unplug(struct fabric *f, const char *volume, const char *node, struct err *err)
{
	WITH_LOCK(&f->lock);
	struct function *fn = find(f, volume, node, true, err);

	if (!fn)
		return -1;
	function_vanish(fn);
	for (struct disk *k = fn->disks; k; k = k->next) {
		bool busy;

		if (loopdev_detach(&k->loop, &busy, err))
			return -1;
		k->lost = true;
	}
	sim_log("%s: %s is unplugged", fn->host->name, fn->bdf);
	return 0;
}

static int renew_disk(struct fabric *f, struct disk *k, struct err *err)
{
	char *image AUTO(free) = state_dir_image(&f->state, k->ns, k->volume);

	if (!k->lost)
		return 0;
	if (loopdev_is_over(image))
		return err_set(err, ERR_UNAVAILABLE,
		               "the last disk of volume %s is still in use (mounted or open)",
		               k->volume);
	if (loopdev_attach(image, f->options->sector_size, &k->loop, err))
		return -1;
	k->lost = false;
	return 0;
}

int hotplug_plug(struct fabric *f, const char *volume, const char *node, int64_t slot,
                 struct err *err)
{
	WITH_LOCK(&f->lock);
	struct function *fn = find(f, volume, node, false, err), *there = fn;

	if (!fn)
		return -1;
	if (slot >= 0)
		there = slot < 32 ? in_slot(fn->host, (unsigned)slot) : NULL;
	if (!there || (there != fn && there->present))
		return err_set(err, ERR_PRECONDITION, "slot %" PRId64 " is %s", slot,
		               there ? "taken" : "none of this node's");
	for (struct disk *k = fn->disks; k; k = k->next)
		if (renew_disk(f, k, err))
			return -1;
	if (there != fn)
		swap_slots(fn, there);
	sim_log("%s: the function of volume %s is plugged in at %s", fn->host->name, volume,
	        fn->bdf);
	return hotplug_appear(fn, err);
}
