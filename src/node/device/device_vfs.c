/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the VFs of SNAP PFs, once after the host has booted.
 *
 * On hosts of the Go plugin, the plugin does this and no other component does. Writes sriov_numvfs
 * only if it is 0, because the kernel changes any other number only after all VFs were removed, and
 * volumes may be on them. No state; one thread at a time, because the kernel rejects a concurrent
 * write of sriov_numvfs with EBUSY.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device.h"
#include "node/device/device_kind.h"
#include "node/device/pci_driver.h"
#include "node/device/pci_slots.h"
#include "node/device/sysfs.h"

/*
 * Binds a PF to its driver, because the kernel creates VFs through that driver (sriov_configure).
 */
static int bind_pf(const struct device_world *w, const struct device_kind *kind, const char *pf,
                   struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(500);
	char *driver AUTO(free) = NULL;
	struct pci_change change;
	int rc = pci_driver(w, pf, &driver, err);

	if (rc < 0 || driver)
		return rc < 0 ? -1 : 0;
	rc = pci_give(w, pf, kind->driver, &change, &why, err);
	if (rc)
		return rc == PCI_NOT_NOW ? err_set(err, ERR_UNAVAILABLE, "%s", why.ptr) : -1;
	return pci_give_back(w, &change, false, err);
}

static int write_attr(const struct device_world *w, const char *dir, const char *name,
                      const char *text, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	int e = sysfs_write(w->writer, path, text);

	return e ? err_sys(err, e, "write %s to %s", text, path) : 0;
}

enum { NO_VFS = 1 };

/*
 * Creates the VFs of one PF. Returns 0 if it has VFs (now), or NO_VFS if it cannot have any, with
 * the reason in `why`.
 */
static int create_on(const struct device_world *w, const struct device_kind *kind, const char *pf,
                     struct str *did, struct str *why, struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pf);
	struct err ignored = ERR_INIT;
	uint64_t total = 0, now = 0;
	char text[24];
	int rc = sysfs_attr_u64(dir, "sriov_totalvfs", &total, err);

	if (!rc)
		rc = sysfs_attr_u64(dir, "sriov_numvfs", &now, err);
	if (rc < 0 || now)
		return rc < 0 ? -1 : 0;
	if (rc || !total) {
		str_addf(why, "%s%s/sriov_totalvfs is %s", why->len ? ", " : "", dir,
		         rc ? "missing" : "0");
		return NO_VFS;
	}
	if (bind_pf(w, kind, pf, err))
		return -1;
	/*
	 * The kernel must not bind new VFs itself, because the probe of a VF without a volume
	 * fails; stage binds the VFs of volumes. Old kernels lack the attribute.
	 */
	IGNORE_RESULT(write_attr(w, dir, "sriov_drivers_autoprobe", "0", &ignored));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)total);
	if (write_attr(w, dir, "sriov_numvfs", text, err))
		return -1;
	str_addf(did, "%s%s VFs on %s", did->len ? ", " : "", text, pf);
	return 0;
}

int device_create_vfs(const struct device_world *w, struct str *did, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs functions AUTO(strs_clear) = STRS_INIT;
	struct str off AUTO(str_clear) = STR_INIT(500), unused AUTO(str_clear) = STR_INIT(1);
	struct strs slots AUTO(strs_clear) = STRS_INIT;
	const struct device_kind *off_kind = NULL;
	struct err first = ERR_INIT;
	bool some = false;

	if (sysfs_list(dir, &functions, err) < 0 || pci_slots(w, &slots, err))
		return -1;
	for (size_t i = 0; i < functions.n; i++) {
		const struct device_kind *kind = device_kind_of_pf(w, functions.v[i]);
		bool hot_plugged = pci_in_slot(&slots, functions.v[i]);
		struct err failed = ERR_INIT;
		int rc;

		if (!kind || !kind->sriov_advice)
			continue;
		rc = create_on(w, kind, functions.v[i], did, hot_plugged ? &unused : &off, &failed);
		some = some || rc == 0;
		if (rc == NO_VFS && !hot_plugged)
			off_kind = kind;
		if (rc < 0) {
			err_wrap(&failed, "create the VFs of %s", functions.v[i]);
			if (!first.code)
				first = failed;
		}
	}
	if (first.code) {
		*err = first;
		return -1;
	}
	/*
	 * If one PF has VFs, a PF without VFs is not an error: it was hot-plugged into a slot that
	 * this host does not show as the DPU's.
	 */
	if (some || !off_kind)
		return 0;
	return err_set(err, ERR_PRECONDITION, "create VFs: SR-IOV is off (%s): %s", off.ptr,
	               off_kind->sriov_advice);
}
