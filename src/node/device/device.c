/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the device of a volume: published address -> PCI function -> its driver -> the device that
 * the kind finds below it. Then verifies that every known fact agrees. Only reads sysfs;
 * device_wait.c waits and binds, device_open.c opens. No state, any thread.
 */
#include "node/device/device.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "common/metric.h"
#include "node/device/block.h"
#include "node/device/mapping.h"
#include "node/device/device_function.h"
#include "node/device/device_kind.h"
#include "node/device/pci_driver.h"
#include "node/device/pci_slots.h"
#include "node/device/sysfs.h"

#define WHY_MAX 700 /* leaves space in an error message for the prefixes of callers */

/* ---- find ---- */

static int read_driver_stage(const struct device_world *w, struct device_sight *sight,
                             struct str *why, struct err *err)
{
	char *driver AUTO(free) = NULL;
	int rc = pci_driver(w, sight->pci, &driver, err);

	if (rc < 0)
		return -1;
	if (str_eq(driver, sight->kind->driver)) {
		sight->stage = DEVICE_BOUND;
		return 0;
	}
	if (driver && !pci_driver_parks(driver))
		return pci_refuse_held(w, sight->pci, driver, err);
	sight->stage = driver ? DEVICE_PARKED : DEVICE_NO_DRIVER;
	str_addf(why, "PCI function %s %s%s; %s is expected", sight->pci,
	         driver ? "is held by driver " : "has no driver", driver ? driver : "",
	         sight->kind->driver);
	if (!driver && device_function_without_memory(w, sight->pci))
		str_add(why, "; the host assigned no memory to its BARs (add pci=realloc to the "
		             "kernel's arguments)");
	return DEVICE_ABSENT;
}

static int device_check_facts(const struct device *dev, const struct device_want *want,
                              struct err *err);

/* Called before the function is changed, because the UUID is the only proof for a static PF. */
static int check_provable(const struct device_want *want, struct err *err)
{
	if (want->function != DEVICE_FUNCTION_STATIC_PF || uuid_known(want->uuid))
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "the attachment has no namespaceUUID (status.dpu.nvmeAttrs), and nothing "
	               "else identifies the volume of a static PF; left alone");
}

int device_probe_below(const struct device_world *w, const struct device_want *want,
                       struct device *ret, struct device_sight *sight, struct str *why,
                       struct err *err)
{
	struct device found;
	/* If the VUID is known, the function was found by it. */
	int rc = device_function_check(w, sight->kind, sight->pci, want->function,
	                               !str_empty(want->vuid), why, err);

	sight->stage = DEVICE_NO_FUNCTION;
	if (!rc)
		rc = read_driver_stage(w, sight, why, err);
	/* Only once the driver is known: a function that a VM uses must not even be read. */
	if (rc > 0 && sight->stage != DEVICE_NO_FUNCTION && sight->kind->check_unbound &&
	    sight->kind->check_unbound(w, sight->pci, want, err))
		return -1;
	if (!rc)
		rc = sight->kind->find(w, sight->pci, want, &found, why, err);
	if (!rc)
		rc = device_check_facts(&found, want, err);
	if (rc)
		return rc;
	assert(str_eq(found.pci, sight->pci));
	*ret = found;
	ret->kind = sight->kind;
	return 0;
}

int device_probe(const struct device_world *w, const struct device_want *want, struct device *ret,
                 struct device_sight *ret_sight, struct str *why, struct err *err)
{
	const struct device_kind *kind = device_kind_wanted(w, want, err);
	struct device_sight sight = { .kind = kind, .stage = DEVICE_NO_FUNCTION };
	struct pci_address address;
	struct pci_match match;
	int rc;

	if (!kind || kind->check_want(want, err) || check_provable(want, err) ||
	    pci_parse(want->pci, &address, err))
		return -1;
	match = kind->functions(w);
	rc = pci_resolve(w, &address, want->vuid, &match, sight.pci, why, err);
	/*
	 * Only for a PF, because the VUID of a VF is that of its PF, and only the address
	 * identifies the VF.
	 */
	if (rc == PCI_ABSENT && want->function == DEVICE_FUNCTION_PF && !str_empty(want->vuid))
		rc = pci_find_vuid(w, want->vuid, &match, sight.pci, err);
	if (!rc) {
		str_reset(why);
		rc = device_probe_below(w, want, ret, &sight, why, err);
	}
	if (rc >= 0)
		*ret_sight = sight;
	return rc;
}

void device_explain(const struct device_world *w, const struct device_want *want,
                    const struct device_sight *sight, struct str *why)
{
	if (!*sight->pci && want->function == DEVICE_FUNCTION_PF)
		device_function_missing(w, why);
}

static int name_volume(const struct device_want *want, struct err *err)
{
	return str_empty(want->volume_id) ? -1 : err_wrap(err, "volume %s", want->volume_id);
}

int device_find(const struct device_world *w, const struct device_want *want, struct device *ret,
                struct str *why, struct err *err)
{
	struct str own AUTO(str_clear) = STR_INIT(WHY_MAX);
	struct device_sight sight;
	int rc;

	if (why)
		str_reset(why);
	rc = device_probe(w, want, ret, &sight, why ? why : &own, err);
	if (rc == DEVICE_ABSENT && why)
		device_explain(w, want, &sight, why);
	return rc < 0 ? name_volume(want, err) : rc;
}

int device_find_again(const struct device_world *w, const char *pci, const struct device_want *want,
                      struct device *ret, struct str *why, struct err *err)
{
	const struct device_kind *kind = device_kind_wanted(w, want, err);
	struct device found;
	int rc = kind ? kind->find(w, pci, want, &found, why, err) : -1;

	if (!rc)
		rc = device_check_facts(&found, want, err);
	if (rc)
		return rc < 0 ? name_volume(want, err) : rc;
	*ret = found;
	ret->kind = kind;
	return 0;
}

/* ---- check ---- */

/* Counts a device that is not the volume's. */
static int refuse_wrong_device(const char *reason, struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS(reason));
	return err_set_kind(err, ERR_KIND_WRONG_DEVICE);
}

static int device_check_facts(const struct device *dev, const struct device_want *want,
                              struct err *err)
{
	char have[64], need[64];

	if (want->nsid && dev->nsid != want->nsid) {
		err_set(err, ERR_PRECONDITION,
		        "device %s has namespace id %u (expected %u, from the attachment)",
		        dev->name, dev->nsid, want->nsid);
		return refuse_wrong_device("wrong namespace", err);
	}
	if (uuid_known(want->uuid) && *dev->uuid && !uuid_equal(dev->uuid, want->uuid)) {
		err_set(err, ERR_PRECONDITION,
		        "device %s (PCI function %s, namespace %u) has UUID %s (expected %s, from "
		        "the attachment): not this volume's disk",
		        dev->name, dev->pci, dev->nsid, dev->uuid, want->uuid);
		return refuse_wrong_device("wrong uuid", err);
	}
	if ((want->function == DEVICE_FUNCTION_STATIC_PF || dev->character) &&
	    !uuid_known(dev->uuid)) {
		err_set(err, ERR_PRECONDITION,
		        "device %s (%s %s, namespace %u) has no %s (expected %s), and nothing else "
		        "identifies it as this volume's %s",
		        dev->name, dev->character ? "PCI function" : "static PF", dev->pci,
		        dev->nsid, dev->character ? "NGUID" : "UUID", want->uuid,
		        dev->character ? "device" : "disk");
		return refuse_wrong_device("wrong uuid", err);
	}
	if (device_capacity(dev) < want->capacity) {
		err_set(err, ERR_PRECONDITION, "device %s has %s, but the volume has %s", dev->name,
		        str_bytes(device_capacity(dev), have), str_bytes(want->capacity, need));
		return refuse_wrong_device("wrong size", err);
	}
	return 0;
}

int device_check(const struct device *dev, const struct device_want *want, struct err *err)
{
	return device_check_facts(dev, want, err) ? name_volume(want, err) : 0;
}

/* Returns true if the device's function has the published bus, device and function number. */
static bool has_address(const struct device *dev, const char *published)
{
	struct pci_address a, b;
	struct err ignored = ERR_INIT;

	if (pci_parse(dev->pci, &a, &ignored) || pci_parse(published, &b, &ignored))
		return false;
	return a.bus == b.bus && a.device == b.device && a.function == b.function;
}

bool device_is_surely(const struct device_world *w, const struct device *dev,
                      const struct device_want *want)
{
	struct str why AUTO(str_clear) = STR_INIT(WHY_MAX);
	struct err ignored = ERR_INIT;

	return dev->kind && dev->kind == device_kind_wanted(w, want, &ignored) &&
	       has_address(dev, want->pci) && uuid_known(want->uuid) && uuid_known(dev->uuid) &&
	       device_check_facts(dev, want, &ignored) == 0 &&
	       device_function_check(w, dev->kind, dev->pci, want->function, false, &why,
	                             &ignored) == 0 &&
	       dev->kind->live(w, dev->pci, &why, &ignored) == 0;
}

/* ---- by number ---- */

/*
 * Returns the last PCI function in a resolved sysfs path; leaves ret unchanged if the path has no
 * function.
 */
static void function_in_path(const char *path, char ret[PCI_NAME_MAX])
{
	const char *end;

	for (const char *p = path; *p; p = *end ? end + 1 : end) {
		struct err not_an_address = ERR_INIT;
		struct pci_address a;
		char part[PCI_NAME_MAX];

		end = strchrnul(p, '/');
		if ((size_t)(end - p) >= sizeof(part))
			continue;
		snprintf(part, sizeof(part), "%.*s", (int)(end - p), p);
		if (pci_parse(part, &a, &not_an_address) == 0 && a.has_domain)
			pci_format(&a, ret);
	}
}

/* Adds the function above the block entry (a disk, or a path of the disk). */
static void add_function(const struct device_world *w, const char *entry, struct strs *ret)
{
	char *link AUTO(free) = xasprintf("%s/class/block/%s", w->sysfs, entry);
	char *path AUTO(free) = realpath(link, NULL);
	char pci[PCI_NAME_MAX] = "";

	if (path)
		function_in_path(path, pci);
	if (*pci && !strs_has(ret, pci))
		strs_add(ret, pci);
}

/*
 * Returns true if the block entry leads to the disk's function: it is the disk, or a hidden path of
 * it.
 */
static bool leads_to(const struct device_world *w, const char *entry, const char *disk)
{
	if (str_eq(entry, disk))
		return true;
	for (const struct device_kind *const *k = device_kinds(w); *k; k++)
		if ((*k)->is_path_of && (*k)->is_path_of(entry, disk))
			return true;
	return false;
}

/* Returns the function that leads to the disk, or "" unless exactly one does. */
static int function_of(const struct device_world *w, const char *disk, char ret[PCI_NAME_MAX],
                       struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/class/block", w->sysfs);
	struct strs entries AUTO(strs_clear) = STRS_INIT;
	struct strs functions AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(dir, &entries, err) < 0)
		return -1;
	for (size_t i = 0; i < entries.n; i++)
		if (leads_to(w, entries.v[i], disk))
			add_function(w, entries.v[i], &functions);
	snprintf(ret, PCI_NAME_MAX, "%s", functions.n == 1 ? functions.v[0] : "");
	return 0;
}

/*
 * Sets *disk to the name of the disk that identifies the device: for a mapping, the disk below it,
 * whose identity is copied to the device; for any other device, the device itself.
 */
static int identify_disk(const struct device_world *w, struct device *d, char **disk,
                         struct err *err)
{
	struct device lower;
	int rc = mapping_disk(w, d->name, d->mapping, disk, err);

	if (rc == DEVICE_ABSENT) {
		*disk = xstrdup(d->name);
		return 0;
	}
	if (!rc && !*disk)
		rc = DEVICE_ABSENT;
	if (!rc)
		rc = block_read(w, *disk, &lower, err);
	if (rc)
		return rc;
	d->lower = lower.devno;
	d->lower_size = lower.size;
	d->nsid = lower.nsid;
	snprintf(d->uuid, sizeof(d->uuid), "%s", lower.uuid);
	return 0;
}

int device_by_number(const struct device_world *w, dev_t devno, struct device *ret, struct err *err)
{
	char *disk AUTO(free) = NULL;
	char *name AUTO(free) = NULL;
	char *dir AUTO(free) = xasprintf("%s/dev/block", w->sysfs);
	char number[32];
	struct device found;
	int rc;

	snprintf(number, sizeof(number), "%u:%u", major(devno), minor(devno));
	rc = sysfs_link(dir, number, &name, err);
	if (!rc)
		rc = block_read(w, name, &found, err);
	if (!rc && found.devno != devno)
		rc = DEVICE_ABSENT;
	if (!rc)
		rc = identify_disk(w, &found, &disk, err);
	if (!rc && function_of(w, disk, found.pci, err))
		rc = -1;
	if (rc < 0)
		return err_wrap(err, "block device %s", number);
	if (rc)
		return rc;
	found.kind = *found.pci ? device_kind_of(w, found.pci) : NULL;
	/* The PCI class of this kind may also have disks that are not for volumes. */
	if (found.kind && !found.kind->list)
		found.kind = NULL;
	*ret = found;
	return 0;
}

int device_by_mapping(const struct device_world *w, const char *mapping, struct device *ret,
                      struct err *err)
{
	char *block AUTO(free) = NULL;
	struct device found;
	int rc = mapping_block(w, mapping, &block, err);

	if (!rc)
		rc = block_read(w, block, &found, err);
	if (rc)
		return rc;
	snprintf(found.mapping, sizeof(found.mapping), "%s", mapping);
	rc = device_by_number(w, found.devno, ret, err);
	if (rc == DEVICE_ABSENT)
		*ret = found;
	return rc < 0 ? -1 : 0;
}

int device_controllers_live(const struct device_world *w, const struct device *dev, struct str *why,
                            struct err *err)
{
	/*
	 * A disk with paths through several functions (native multipath) has no kind, and is not
	 * checked.
	 */
	return dev->kind ? dev->kind->live(w, dev->pci, why, err) : 0;
}

/* ---- functions ---- */

int device_release(const struct device_world *w, const struct device *dev, struct err *err)
{
	struct pci_match match;
	int rc;

	if (!dev->kind)
		return 0;
	assert(*dev->pci);
	match = dev->kind->functions(w);
	rc = pci_usable(w, dev->pci, &match, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	return pci_forget(w, dev->pci, dev->kind->driver, err) < 0 ? -1 : 0;
}

/*
 * Returns true if the function is for volumes. For a kind without VFs, only a function in one of the
 * DPU's hot-plug slots is proven to be for volumes.
 */
static bool is_ours(const struct device_world *w, const struct device_kind *kind, const char *pci)
{
	const struct pci_match match = kind->functions(w);
	struct str why AUTO(str_clear) = STR_INIT(WHY_MAX);
	struct err ignored = ERR_INIT;

	return pci_usable(w, pci, &match, &ignored) == 0 &&
	       (kind->sriov_advice || device_function_check(w, kind, pci, DEVICE_FUNCTION_PF, false,
	                                                    &why, &ignored) == 0);
}

/*
 * First checks that the function is for volumes, because reading driver_override of any other
 * function may hang.
 */
int device_recover(const struct device_world *w, const char *pci, struct err *err)
{
	for (const struct device_kind *const *k = device_kinds(w); *k; k++) {
		int rc = is_ours(w, *k, pci) ? pci_forget(w, pci, (*k)->driver, err) : PCI_NOT_SET;

		if (rc != PCI_NOT_SET)
			return rc;
	}
	return DEVICE_NOT_SET;
}

int device_functions(const struct device_world *w, struct strs *ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);

	return sysfs_list(dir, ret, err) < 0 ? -1 : 0;
}

static int device_count_vfs(const struct device_world *w, const char *pf, unsigned *ret,
                            struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pf);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(dir, &names, err) < 0)
		return -1;
	*ret = 0;
	for (size_t i = 0; i < names.n; i++)
		*ret += str_has_prefix(names.v[i], "virtfn");
	return 0;
}

/* Adds the number of VFs of one kind's PFs to *ret_n, and each PF with its number to `where`. */
static int count_of_kind(const struct device_world *w, const struct device_kind *kind,
                         const struct strs *functions, unsigned *ret_n, struct str *where,
                         struct err *err)
{
	const struct pci_match match = kind->functions(w);
	char *vendors AUTO(free) = strs_join(match.vendors, "|");
	struct str found AUTO(str_clear) = STR_INIT(WHY_MAX);

	for (size_t i = 0; i < functions->n; i++) {
		unsigned vfs;

		if (!device_kind_is_pf(w, kind, functions->v[i]))
			continue;
		if (device_count_vfs(w, functions->v[i], &vfs, err))
			return -1;
		str_addf(&found, "%s%s with %u VFs", found.len ? ", " : "", functions->v[i], vfs);
		*ret_n += vfs;
	}
	if (where)
		str_addf(where, "%s%s PFs %s:%s in %s/bus/pci/devices: %s", where->len ? "; " : "",
		         kind->name, vendors, match.pf_device_id, w->sysfs,
		         found.len ? found.ptr : "none");
	return 0;
}

int device_count_functions(const struct device_world *w, unsigned *ret_n, struct str *where,
                           struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs functions AUTO(strs_clear) = STRS_INIT;
	unsigned n = 0;

	if (sysfs_list(dir, &functions, err) < 0)
		return err_wrap(err, "count the functions for volumes");
	if (where)
		str_reset(where);
	for (const struct device_kind *const *k = device_kinds(w); *k; k++)
		if ((*k)->sriov_advice && count_of_kind(w, *k, &functions, &n, where, err))
			return err_wrap(err, "count the functions for volumes");
	*ret_n = n;
	return 0;
}

/* Adds the PFs of kinds with VFs that are outside of the DPU's hot-plug slots. */
static int static_pfs(const struct device_world *w, struct strs *ret, struct err *err)
{
	struct strs functions AUTO(strs_clear) = STRS_INIT, slots AUTO(strs_clear) = STRS_INIT;

	if (device_functions(w, &functions, err) || pci_slots(w, &slots, err))
		return -1;
	for (size_t i = 0; i < functions.n; i++) {
		const struct device_kind *kind = device_kind_of_pf(w, functions.v[i]);

		if (kind && kind->sriov_advice && !pci_in_slot(&slots, functions.v[i]))
			strs_add(ret, functions.v[i]);
	}
	return 0;
}

int device_count_static_pfs(const struct device_world *w, unsigned *ret_n, struct err *err)
{
	struct strs pfs AUTO(strs_clear) = STRS_INIT;

	if (static_pfs(w, &pfs, err))
		return err_wrap(err, "count the static PFs of the DPU");
	*ret_n = (unsigned)pfs.n;
	return 0;
}

/*
 * With more VFs, the 256 numbers of one bus may not suffice, because the PF and its neighbours use
 * some.
 */
#define VFS_OF_ONE_BUS 127

int device_vfs_without_bus(const struct device_world *w, struct device_vfs *ret, struct err *err)
{
	struct strs pfs AUTO(strs_clear) = STRS_INIT;

	*ret = (struct device_vfs) { .possible = 0 };
	if (static_pfs(w, &pfs, err))
		return -1;
	for (size_t i = 0; i < pfs.n; i++) {
		char *dir AUTO(free) = pci_dir(w, pfs.v[i]);
		uint64_t vfs = 0;
		unsigned present;

		if (sysfs_attr_u64(dir, "sriov_totalvfs", &vfs, err) < 0 ||
		    device_count_vfs(w, pfs.v[i], &present, err))
			return -1;
		if (vfs <= VFS_OF_ONE_BUS || vfs > UINT16_MAX || present > VFS_OF_ONE_BUS)
			continue;
		*ret = (struct device_vfs) { .present = present, .possible = (unsigned)vfs };
		snprintf(ret->pf, sizeof(ret->pf), "%s", pfs.v[i]);
		return 0;
	}
	return 0;
}
