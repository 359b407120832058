/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the PFs and slots once. For a function without a driver it reads one link; for any other
 * function it reads the state of the controller and the names below it. It never accesses a device.
 */
#include "node/device/device_states.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device_kind.h"
#include "node/device/pci_driver.h"
#include "node/device/pci_slots.h"
#include "node/device/sysfs.h"

#define WHY_MAX 200

const char *device_state_name(enum device_state state)
{
	static const char *const names[DEVICE_STATES] = {
		[DEVICE_STATE_EMPTY] = "empty",
		[DEVICE_STATE_UNBOUND] = "unbound",
		[DEVICE_STATE_IDLE] = "idle",
		[DEVICE_STATE_IN_USE] = "in use",
		[DEVICE_STATE_FAILED] = "failed",
		[DEVICE_STATE_OTHER_DRIVER] = "other driver",
		[DEVICE_STATE_OTHER_FUNCTION] = "other function",
	};

	return names[state];
}

/* Returns the state of a function that is bound to the driver of its kind. */
static enum device_state state_below(const struct device_world *w, const struct device_kind *kind,
                                     const char *pci)
{
	struct str unused AUTO(str_clear) = STR_INIT(WHY_MAX);
	struct strs disks AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (kind->live(w, pci, &unused, &ignored))
		return DEVICE_STATE_FAILED;
	if (!kind->list)
		return DEVICE_STATE_IN_USE;
	if (kind->list(w, pci, &disks, &ignored))
		return DEVICE_STATE_FAILED;
	return disks.n ? DEVICE_STATE_IN_USE : DEVICE_STATE_IDLE;
}

static enum device_state state_of(const struct device_world *w, const struct device_kind *kind,
                                  const char *pci)
{
	char *driver AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (pci_driver(w, pci, &driver, &ignored) || pci_driver_parks(driver))
		return DEVICE_STATE_UNBOUND;
	if (!str_eq(driver, kind->driver))
		return DEVICE_STATE_OTHER_DRIVER;
	return state_below(w, kind, pci);
}

/* Counts the VFs of a PF, which has a link for each: "virtfn0". */
static int device_states_count_vfs(const struct device_world *w, const struct device_kind *kind,
                                   const char *pf, unsigned counts[DEVICE_STATES], struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pf);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *vf AUTO(free) = NULL;
		struct err ignored = ERR_INIT;

		if (str_has_prefix(names.v[i], "virtfn") &&
		    !sysfs_link(dir, names.v[i], &vf, &ignored))
			counts[state_of(w, kind, vf)]++;
	}
	return 0;
}

static enum device_state state_in_slot(const struct device_world *w, const char *pci)
{
	const struct device_kind *kind = device_kind_of_pf(w, pci);
	char *dir AUTO(free) = pci_dir(w, pci);
	struct err ignored = ERR_INIT;
	uint64_t vfs = 0;

	if (!kind || (!sysfs_attr_u64(dir, "sriov_totalvfs", &vfs, &ignored) && vfs))
		return DEVICE_STATE_OTHER_FUNCTION;
	return state_of(w, kind, pci);
}

/*
 * Returns the state of a slot. If it has several functions, returns the state that is farthest from
 * usable.
 */
static enum device_state state_of_slot(const struct device_world *w, const char *slot,
                                       const struct strs *functions)
{
	enum device_state state = DEVICE_STATE_EMPTY;

	for (size_t i = 0; i < functions->n; i++)
		if (str_has_prefix(functions->v[i], slot)) {
			enum device_state s = state_in_slot(w, functions->v[i]);

			state = s > state ? s : state;
		}
	return state;
}

int device_count_states(const struct device_world *w, struct device_states *ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs functions AUTO(strs_clear) = STRS_INIT;
	struct strs slots AUTO(strs_clear) = STRS_INIT;

	*ret = (struct device_states) { 0 };
	if (sysfs_list(dir, &functions, err) < 0 || pci_slots(w, &slots, err))
		return err_wrap(err, "count the functions for volumes by their state");
	for (size_t i = 0; i < functions.n; i++) {
		const struct device_kind *kind = device_kind_of_pf(w, functions.v[i]);

		if (kind && kind->sriov_advice &&
		    device_states_count_vfs(w, kind, functions.v[i], ret->vfs, err))
			return err_wrap(err, "count the VFs of %s by their state", functions.v[i]);
	}
	for (size_t i = 0; i < slots.n; i++)
		ret->slots[state_of_slot(w, slots.v[i], &functions)]++;
	return 0;
}
