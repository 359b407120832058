/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the table of kinds. Only reads sysfs; no state, any thread. */
#include "node/device/device_kind.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/device/sysfs.h"

static const struct device_kind *const all[] = {
	&device_kind_nvme,
	&device_kind_virtiofs,
	NULL,
};

const struct device_kind *const *device_kinds(const struct device_world *w)
{
	return w->kinds ? w->kinds : all;
}

const struct device_kind *device_kind_wanted(const struct device_world *w,
                                             const struct device_want *want, struct err *err)
{
	for (const struct device_kind *const *k = device_kinds(w); *k; k++)
		if ((*k)->emulation == want->emulation)
			return *k;
	err_set(err, ERR_UNIMPLEMENTED, "emulation %s is not supported",
	        emulation_name(want->emulation));
	return NULL;
}

const struct device_kind *device_kind_of(const struct device_world *w, const char *pci)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	struct err ignored = ERR_INIT;
	uint32_t class_bits;

	if (sysfs_attr_hex(dir, "class", &class_bits, &ignored))
		return NULL;
	for (const struct device_kind *const *k = device_kinds(w); *k; k++)
		if ((*k)->functions(w).class_code == class_bits >> 8)
			return *k;
	return NULL;
}

/* Returns false for a function whose attributes cannot be read. */
bool device_kind_is_pf(const struct device_world *w, const struct device_kind *kind,
                       const char *pci)
{
	const struct pci_match match = kind->functions(w);
	char *dir AUTO(free) = pci_dir(w, pci);
	char *physfn AUTO(free) = xasprintf("%s/physfn", dir);
	struct err ignored = ERR_INIT;
	char text[9];
	uint32_t device;

	if (path_exists(physfn) || pci_usable(w, pci, &match, &ignored) ||
	    sysfs_attr_hex(dir, "device", &device, &ignored))
		return false;
	snprintf(text, sizeof(text), "%04x", device);
	return str_eq(text, match.pf_device_id);
}

const struct device_kind *device_kind_of_pf(const struct device_world *w, const char *pci)
{
	for (const struct device_kind *const *k = device_kinds(w); *k; k++)
		if (device_kind_is_pf(w, *k, pci))
			return *k;
	return NULL;
}
