/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot belongs to the DPU if the bridge above its bus, and the bridge above that, have the DPU's
 * vendor, so the slot is below a port of the DPU's switch. A DPU in a slot of the host is below a
 * root port; that slot belongs to the host. Slots without a device number are not for hot-plugging.
 *
 * If the result lacked a slot, a volume would be rejected permanently, or its function proven less
 * strictly. Therefore an unreadable object is an error, and only removed objects are skipped.
 */
#include "node/device/pci_slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device_kind.h"
#include "node/device/pci.h"
#include "node/device/pci_driver.h"
#include "node/device/sysfs.h"

/* A bridge of the DPU's vendor: the bus that it is on, and the bus below it. */
struct bridge {
	uint32_t domain;
	uint64_t bus, below;
};

struct bridges {
	struct bridge *v;
	size_t n;
};

static void bridges_clear_p(struct bridges *b)
{
	free(b->v);
}

enum { BRIDGE_NONE = 1 };
/*
 * Reads a bridge. Returns BRIDGE_NONE if the function is not a bridge, was removed, or has another
 * vendor.
 */
static int read_bridge(const struct device_world *w, const char *pci, struct bridge *ret,
                       struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	struct err ignored = ERR_INIT;
	struct pci_address a;
	uint32_t vendor;
	char text[9];
	int rc = sysfs_attr_u64(dir, "secondary_bus_number", &ret->below, err);

	if (!rc)
		rc = sysfs_attr_hex(dir, "vendor", &vendor, err);
	if (rc < 0)
		return err_recode(err, ERR_UNAVAILABLE);
	if (rc || pci_parse(pci, &a, &ignored))
		return BRIDGE_NONE;
	snprintf(text, sizeof(text), "%04x", vendor);
	ret->domain = a.domain;
	ret->bus = a.bus;
	return strs_has(w->vendors, text) ? 0 : BRIDGE_NONE;
}

static int read_bridges(const struct device_world *w, struct bridges *ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs functions AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(dir, &functions, err) < 0)
		return -1;
	ret->v = xcalloc(functions.n + 1, sizeof(*ret->v));
	for (size_t i = 0; i < functions.n; i++) {
		int rc = read_bridge(w, functions.v[i], &ret->v[ret->n], err);

		if (rc < 0)
			return -1;
		ret->n += rc == 0;
	}
	return 0;
}

/*
 * Returns the bridge above a bus. Bus 0 is never below a bridge: a bridge without a bus number
 * shows 0.
 */
static const struct bridge *bridge_above(const struct bridges *b, uint32_t domain, uint64_t bus)
{
	for (size_t i = 0; i < b->n; i++)
		if (bus && b->v[i].domain == domain && b->v[i].below == bus)
			return &b->v[i];
	return NULL;
}

static bool below_switch(const struct bridges *b, const char *slot)
{
	char *function AUTO(free) = xasprintf("%s.0", slot);
	struct err ignored = ERR_INIT;
	const struct bridge *port;
	struct pci_address a;

	if (pci_parse(function, &a, &ignored))
		return false;
	port = bridge_above(b, a.domain, a.bus);
	return port && bridge_above(b, port->domain, port->bus);
}

int pci_slots(const struct device_world *w, struct strs *ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/slots", w->sysfs);
	struct bridges bridges AUTO(bridges_clear) = { 0 };
	struct strs names AUTO(strs_clear) = STRS_INIT;

	/* A missing directory is not an error. */
	if (sysfs_list(dir, &names, err) < 0 || read_bridges(w, &bridges, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *slot AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);
		char *address AUTO(free) = NULL;
		int rc = sysfs_attr(slot, "address", &address, err);

		if (rc < 0)
			return err_recode(err, ERR_UNAVAILABLE);
		if (!rc && below_switch(&bridges, address) && !strs_has(ret, address))
			strs_add(ret, address);
	}
	return 0;
}

int device_ports_without_bus(const struct device_world *w, struct strs *ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct bridges bridges AUTO(bridges_clear) = { 0 };
	struct strs functions AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(dir, &functions, err) < 0 || read_bridges(w, &bridges, err))
		return -1;
	for (size_t i = 0; i < functions.n; i++) {
		struct bridge port;
		int rc = read_bridge(w, functions.v[i], &port, err);

		if (rc < 0)
			return -1;
		/* Bus 0 is never below a bridge. */
		if (!rc && !port.below && bridge_above(&bridges, port.domain, port.bus))
			strs_add(ret, functions.v[i]);
	}
	return 0;
}

bool pci_in_slot(const struct strs *slots, const char *pci)
{
	char address[PCI_NAME_MAX];
	const char *dot = strrchr(pci, '.');

	if (!dot || dot - pci >= PCI_NAME_MAX)
		return false;
	snprintf(address, sizeof(address), "%.*s", (int)(dot - pci), pci);
	return strs_has(slots, address);
}

/* Returns true if the function is bound to a driver other than that of its kind. */
static bool is_held(const struct device_world *w, const struct device_kind *kind, const char *pci)
{
	char *driver AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	return !pci_driver(w, pci, &driver, &ignored) && !str_eq(driver, kind->driver) &&
	       !pci_driver_parks(driver);
}

/* Returns false for a function that has VFs, because the VFs are counted instead. */
static bool is_for_a_volume(const struct device_world *w, const char *pci)
{
	const struct device_kind *kind = device_kind_of_pf(w, pci);
	char *dir AUTO(free) = pci_dir(w, pci);
	struct err ignored = ERR_INIT;
	uint64_t vfs = 0;

	return kind && !is_held(w, kind, pci) &&
	       (sysfs_attr_u64(dir, "sriov_totalvfs", &vfs, &ignored) || !vfs);
}

/* Returns true if the slot is empty, or has a function for volumes. */
static bool is_for_volumes(const struct device_world *w, const char *slot,
                           const struct strs *functions)
{
	for (size_t i = 0; i < functions->n; i++)
		if (str_has_prefix(functions->v[i], slot) && !is_for_a_volume(w, functions->v[i]))
			return false;
	return true;
}

/* Adds the unusable ports, which explain missing slots to an operator. */
static void add_ports_without_bus(const struct device_world *w, struct str *where)
{
	struct strs ports AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;
	char *list AUTO(free) = NULL;

	if (device_ports_without_bus(w, &ports, &ignored) || !ports.n)
		return;
	list = strs_join(&ports, ", ");
	str_addf(where, ", no bus number for its ports %.200s (" DEVICE_ASSIGN_BUSES ")", list);
}

int device_count_slots(const struct device_world *w, unsigned *ret_n, struct str *where,
                       struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs functions AUTO(strs_clear) = STRS_INIT;
	struct strs slots AUTO(strs_clear) = STRS_INIT;
	unsigned n = 0;

	if (sysfs_list(dir, &functions, err) < 0 || pci_slots(w, &slots, err))
		return err_wrap(err, "count the hot-plug slots of the DPU");
	for (size_t i = 0; i < slots.n; i++)
		n += is_for_volumes(w, slots.v[i], &functions);
	if (where)
		str_addf(
			where,
			"%zu hot-plug slots below its PCIe switch in %s/bus/pci/slots, %u of them for volumes",
			slots.n, w->sysfs, n);
	if (where)
		add_ports_without_bus(w, where);
	*ret_n = n;
	return 0;
}
