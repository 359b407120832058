/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VF is recognized by its PF, which is a SNAP PF (pci_usable()). A PF may be hot-plugged for this
 * volume, or static with its own disks and VFs; both have the same class, vendor and device ID.
 * They differ in the slot, because only the DPU plugs functions into the slots of its switch. A
 * static PF is accepted only if the caller requests one. Only reads sysfs.
 */
#include "node/device/device_function.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/metric.h"
#include "node/device/pci_slots.h"
#include "node/device/sysfs.h"

static int check_device_id(const char *pci, const char *dir, const char *accepted, struct str *why,
                           struct err *err)
{
	uint32_t device;
	char text[9];
	int rc = sysfs_attr_hex(dir, "device", &device, err);

	if (rc > 0)
		str_addf(why, "PCI function %s no longer exists", pci);
	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%04x", device);
	if (str_eq(text, accepted))
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "PCI function %s has device id %s, not the SNAP controller's %s; left alone",
	               pci, text, accepted);
}

static int check_slot(const struct device_world *w, const char *pci, bool proven, struct err *err)
{
	struct strs slots AUTO(strs_clear) = STRS_INIT;
	struct str missing AUTO(str_clear) = STR_INIT(400);
	char *list AUTO(free) = NULL;

	if (pci_slots(w, &slots, err))
		return -1;
	if (pci_in_slot(&slots, pci) || (slots.n == 0 && proven))
		return 0;
	if (slots.n == 0) {
		device_function_missing(w, &missing);
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s could not be verified as hot-plugged, and is "
		               "left alone: the attachment has no VUID for it%s",
		               pci, missing.ptr);
	}
	list = strs_join(&slots, ", ");
	return err_set(err, ERR_PRECONDITION,
	               "PCI function %s is in none of the DPU's hot-plug slots (%.200s), so the "
	               "DPU has not hot-plugged it; left alone",
	               pci, list);
}

static int check_hot_plugged(const struct device_world *w, const struct device_kind *kind,
                             const char *pci, bool proven, struct str *why, struct err *err)
{
	const struct pci_match match = kind->functions(w);
	char *dir AUTO(free) = pci_dir(w, pci);
	uint64_t vfs = 0;
	int rc = check_device_id(pci, dir, match.pf_device_id, why, err);

	if (!rc && sysfs_attr_u64(dir, "sriov_totalvfs", &vfs, err) < 0)
		rc = -1;
	if (rc)
		return rc;
	if (vfs)
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s is a static PF of the DPU, with up to %" PRIu64
		               " VFs, and not hot-plugged; left alone",
		               pci, vfs);
	return check_slot(w, pci, proven, err);
}

/*
 * Accepts a static PF. Only the UUID, which the caller compares, distinguishes it from a PF of
 * another volume.
 */
static int check_static(const struct device_world *w, const struct device_kind *kind,
                        const char *pci, struct str *why, struct err *err)
{
	const struct pci_match match = kind->functions(w);
	char *dir AUTO(free) = pci_dir(w, pci);
	struct strs slots AUTO(strs_clear) = STRS_INIT;
	int rc = check_device_id(pci, dir, match.pf_device_id, why, err);

	if (!rc && pci_slots(w, &slots, err))
		rc = -1;
	if (!rc && pci_in_slot(&slots, pci))
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s is in a hot-plug slot of the DPU, but the "
		               "attachment's hotplugFunction is false; left alone",
		               pci);
	return rc;
}

static int device_function_check_type(const struct device_world *w, const struct device_kind *kind,
                                      const char *pci, enum device_function wanted, bool proven,
                                      struct str *why, struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	char *pf AUTO(free) = NULL;
	int rc = sysfs_link(dir, "physfn", &pf, err);

	if (rc < 0)
		return -1;
	if (rc == 0 && (wanted == DEVICE_FUNCTION_PF || wanted == DEVICE_FUNCTION_STATIC_PF))
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s is a VF of %s, but the volume's functionType is "
		               "pf; left alone",
		               pci, pf);
	if (rc == 0 && !kind->sriov_advice)
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s is a VF of %s, but %s volumes do not use VFs; "
		               "left alone",
		               pci, pf, kind->name);
	if (rc == 0)
		return 0;
	/*
	 * The addresses of a PF and its VFs are adjacent, so an address that is off by one must not
	 * lead to the PF's own disks.
	 */
	if (wanted == DEVICE_FUNCTION_VF)
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s is not a VF, but the volume's functionType is "
		               "vf; left alone",
		               pci);
	return wanted == DEVICE_FUNCTION_STATIC_PF
	               ? check_static(w, kind, pci, why, err)
	               : check_hot_plugged(w, kind, pci, proven, why, err);
}

int device_function_check(const struct device_world *w, const struct device_kind *kind,
                          const char *pci, enum device_function wanted, bool proven,
                          struct str *why, struct err *err)
{
	int rc = device_function_check_type(w, kind, pci, wanted, proven, why, err);

	if (rc < 0 && err->code == ERR_PRECONDITION) {
		metric_add(METRIC_REFUSALS, 1, LABELS("wrong function"));
		err_set_kind(err, ERR_KIND_WRONG_DEVICE);
	}
	return rc;
}

void device_function_missing(const struct device_world *w, struct str *why)
{
	struct strs slots AUTO(strs_clear) = STRS_INIT;
	struct strs ports AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;
	char *list AUTO(free) = NULL;

	if (pci_slots(w, &slots, &ignored) || device_ports_without_bus(w, &ports, &ignored))
		return;
	list = strs_join(&ports, ", ");
	if (ports.n)
		str_addf(why,
		         "; the host has no bus number for the DPU's ports "
		         "%.200s (" DEVICE_ASSIGN_BUSES ")",
		         list);
	else if (slots.n == 0)
		str_addf(why,
		         "; the host shows no hot-plug slot of the DPU in %s/bus/pci/slots (is "
		         "pciehp off in its kernel, or the DPU's PCIe switch without hot-plug "
		         "ports?)",
		         w->sysfs);
}

enum { BARS = 6 };

/*
 * `resource` has a line for each BAR: "<first address> <last> <flags>". All three are 0 for a BAR
 * that the function does not have, or for which the kernel found no address range.
 */
bool device_function_without_memory(const struct device_world *w, const char *pci)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	struct err ignored = ERR_INIT;
	char *lines AUTO(free) = NULL;
	unsigned placed = 0;
	char *at;

	if (sysfs_attr(dir, "resource", &lines, &ignored) || !str_has_prefix(lines, "0x"))
		return false;
	at = lines;
	for (int i = 0; i < BARS && *at; i++) {
		uint64_t first = strtoull(at, &at, 16), flags;

		(void)strtoull(at, &at, 16);
		flags = strtoull(at, &at, 16);
		if (!first && flags)
			return true;
		placed += first != 0;
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	return !placed;
}
