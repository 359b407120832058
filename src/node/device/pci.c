/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads PCI functions from sysfs. Writes nothing; no state, any thread. Reads the VPD only of
 * functions that the driver may use, because on some other devices that takes seconds.
 */
#include "node/device/pci.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "node/device/sysfs.h"
#include "node/device/vpd.h"

/* ---- addresses ---- */

/*
 * Parses a number of 1 to max_digits hex digits, at most max. Returns the end of the digits, or
 * NULL.
 */
static const char *hex_part(const char *p, size_t max_digits, uint32_t max, uint32_t *ret)
{
	size_t n = strspn(p, "0123456789abcdefABCDEF");
	char digits[9] = "";

	if (n == 0 || n > max_digits || n >= sizeof(digits))
		return NULL;
	memcpy(digits, p, n);
	*ret = (uint32_t)strtoul(digits, NULL, 16);
	return *ret <= max ? p + n : NULL;
}

/* Parses "bus:device.function", which must be the whole string. */
static bool parse_short(const char *p, struct pci_address *a)
{
	uint32_t bus, device, function;

	p = hex_part(p, 2, 0xff, &bus);
	if (!p || *p++ != ':')
		return false;
	p = hex_part(p, 2, 0x1f, &device);
	if (!p || *p++ != '.')
		return false;
	p = hex_part(p, 1, 7, &function);
	if (!p || *p)
		return false;
	a->bus = (uint8_t)bus;
	a->device = (uint8_t)device;
	a->function = (uint8_t)function;
	return true;
}

static bool parse_any(const char *text, struct pci_address *a)
{
	const char *first = strchr(text, ':'), *p;

	if (!first || !strchr(first + 1, ':'))
		return parse_short(text, a);
	if (first == text)
		return parse_short(text + 1, a);
	/* Domains above ffff are assigned by the kernel (VMD: 10000 and up). */
	p = hex_part(text, 5, 0x1ffff, &a->domain);
	a->has_domain = true;
	return p == first && parse_short(p + 1, a);
}

int pci_parse(const char *text, struct pci_address *ret, struct err *err)
{
	struct pci_address a = { 0 };

	if (str_empty(text))
		return err_set(err, ERR_INVALID, "the PCI address is empty");
	if (!parse_any(text, &a))
		return err_set(err, ERR_INVALID,
		               "\"%.40s\" is not a PCI address ([domain:]bus:device.function)",
		               text);
	if (a.bus == 0 && a.device == 0 && a.function == 0)
		return err_set(
			err, ERR_INVALID,
			"PCI address \"%.40s\" is the host bridge: the DPU published it before "
			"the host had enumerated its functions",
			text);
	*ret = a;
	return 0;
}

void pci_format(const struct pci_address *a, char ret[PCI_NAME_MAX])
{
	assert(a->domain <= 0x1ffff && a->device <= 0x1f && a->function <= 7);
	/* The masks limit the values for the compiler's check of the buffer size. */
	snprintf(ret, PCI_NAME_MAX, "%04x:%02x:%02x.%x", a->domain & 0xfffff, a->bus,
	         a->device & 0x1fU, a->function & 7U);
}

/* ---- one function ---- */

char *pci_dir(const struct device_world *w, const char *pci)
{
	return xasprintf("%s/bus/pci/devices/%s", w->sysfs, pci);
}

/* Reads an ID: "15b3" from "0x15b3"; or returns SYSFS_ABSENT. */
static int read_id(const char *dir, const char *name, char ret[9], struct err *err)
{
	uint32_t id;
	int rc = sysfs_attr_hex(dir, name, &id, err);

	if (rc == 0)
		snprintf(ret, 9, "%04x", id);
	return rc;
}

static int pci_check_device_id(const char *pci, const char *dir, const char *accepted,
                               struct err *err)
{
	char device[9];
	int rc = accepted ? read_id(dir, "device", device, err) : 0;

	if (rc || !accepted || str_eq(device, accepted))
		return rc;
	return err_set(err, ERR_PRECONDITION,
	               "PCI function %s has device id %s (expected %s); left alone", pci, device,
	               accepted);
}

/*
 * Checks that the function has the class, a vendor and the device ID of the kind. Returns 0,
 * SYSFS_ABSENT or -1.
 */
static int check_kind(const char *pci, const char *dir, const struct pci_match *match,
                      struct err *err)
{
	char *accepted AUTO(free) = NULL;
	char vendor[9];
	uint32_t class_bits;
	int rc = sysfs_attr_hex(dir, "class", &class_bits, err);

	if (!rc)
		rc = read_id(dir, "vendor", vendor, err);
	if (rc)
		return rc;
	if (class_bits >> 8 != match->class_code)
		return err_set(
			err, ERR_PRECONDITION,
			"PCI function %s has class 0x%06x, not 0x%04xxx: not a device of this "
			"driver; left alone",
			pci, class_bits, match->class_code);
	if (strs_has(match->vendors, vendor) || str_eq(match->other_vendor, vendor))
		return pci_check_device_id(pci, dir, match->device_id, err);
	accepted = strs_join(match->vendors, ", ");
	return err_set(err, ERR_PRECONDITION,
	               "PCI function %s is of vendor %s (accepted: %s%s%s); left alone", pci,
	               vendor, accepted, match->other_vendor ? ", " : "",
	               match->other_vendor ? match->other_vendor : "");
}

/* Checks that the VF is for volumes, that is, that its PF is a SNAP PF. */
static int check_parent(const struct device_world *w, const char *pci, const char *pf,
                        const struct pci_match *match, struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pf);
	char device[9];
	int rc = check_kind(pf, dir, match, err);

	if (!rc)
		rc = read_id(dir, "device", device, err);
	if (rc < 0)
		return err_wrap(err, "parent of PCI function %s", pci);
	if (rc == 0 && !str_eq(device, match->pf_device_id))
		return err_set(
			err, ERR_PRECONDITION,
			"PCI function %s is a VF of %s, which has device id %s, not the SNAP "
			"controller's %s; left alone",
			pci, pf, device, match->pf_device_id);
	return rc;
}

int pci_usable(const struct device_world *w, const char *pci, const struct pci_match *match,
               struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	char *pf AUTO(free) = NULL;
	int rc = check_kind(pci, dir, match, err);

	if (rc)
		return rc;
	rc = sysfs_link(dir, "physfn", &pf, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	return check_parent(w, pci, pf, match, err);
}

int pci_driver(const struct device_world *w, const char *pci, char **ret, struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pci);

	return sysfs_link(dir, "driver", ret, err);
}

/* ---- the domain ---- */

/*
 * Reads the VUID of a function from field VU in its VPD or, for a VF, in the VPD of its PF. Returns
 * false if it is unknown, with the reason in `why`.
 */
static bool read_vuid(const struct device_world *w, const char *pci, char ret[VPD_VALUE_MAX],
                      struct str *why)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	char *pf AUTO(free) = NULL;
	char *bytes AUTO(free) = NULL;
	struct err err = ERR_INIT;
	const char *name;
	size_t n;
	int rc = sysfs_link(dir, "physfn", &pf, &err);

	name = rc == 0 ? "physfn/vpd" : "vpd";
	if (rc >= 0)
		rc = sysfs_bytes(dir, name, &bytes, &n, &err);
	if (rc == 0 && vpd_field(bytes, n, "VU", ret))
		return true;
	str_addf(why, "; the VUID of %s is unknown: %s", pci,
	         rc < 0    ? err.msg
	         : rc == 0 ? "its VPD has no field VU"
	                   : "it has no VPD");
	return false;
}

/* Lists the functions with this bus, device and function number in any domain. */
static int same_in_any_domain(const struct device_world *w, const struct pci_address *a,
                              struct strs *ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs all AUTO(strs_clear) = STRS_INIT;
	char wanted[PCI_NAME_MAX], name[PCI_NAME_MAX];

	pci_format(a, wanted);
	if (sysfs_list(dir, &all, err) < 0)
		return -1;
	for (size_t i = 0; i < all.n; i++) {
		struct pci_address found;
		struct err not_an_address = ERR_INIT;

		if (pci_parse(all.v[i], &found, &not_an_address))
			continue;
		found.domain = a->domain;
		pci_format(&found, name);
		if (str_eq(name, wanted))
			strs_add(ret, all.v[i]);
	}
	return 0;
}

static int refuse_ambiguous(const struct strs *found, const char *what, struct err *err)
{
	char *names AUTO(free) = strs_join(found, ", ");

	return err_set(err, ERR_PRECONDITION, "%s: %s; refusing to choose", what, names);
}

/* Adds the usable candidates to ret, and the reasons for rejecting the others to `why`. */
static void keep_usable(const struct device_world *w, const struct strs *candidates,
                        const struct pci_match *match, struct strs *ret, struct str *why)
{
	for (size_t i = 0; i < candidates->n; i++) {
		struct err err = ERR_INIT;
		int rc = pci_usable(w, candidates->v[i], match, &err);

		if (rc == 0)
			strs_add(ret, candidates->v[i]);
		else if (rc < 0)
			str_addf(why, "; %s", err.msg);
	}
}

static int by_vuid(const struct device_world *w, const struct strs *usable, const char *vuid,
                   char ret[PCI_NAME_MAX], struct str *why, struct err *err)
{
	struct strs found AUTO(strs_clear) = STRS_INIT;

	for (size_t i = 0; i < usable->n; i++) {
		char has[VPD_VALUE_MAX];

		if (!read_vuid(w, usable->v[i], has, why))
			continue;
		if (str_eq(has, vuid))
			strs_add(&found, usable->v[i]);
		else
			str_addf(why, "; %s has VUID %s", usable->v[i], has);
	}
	if (found.n > 1)
		return refuse_ambiguous(&found, "several PCI functions have the published VUID",
		                        err);
	/*
	 * Never accepts a function whose VUID is not proven: another device may have this address
	 * in one domain while the volume's function is still to be plugged into another domain.
	 */
	if (found.n == 0)
		return PCI_ABSENT;
	snprintf(ret, PCI_NAME_MAX, "%s", found.v[0]);
	return 0;
}

/* Adds the function to ret if it is a usable PF. */
static void add_usable_pf(const struct device_world *w, const char *pci,
                          const struct pci_match *match, struct strs *ret)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	char *pf AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	/* Checked first, because most functions have a different class. */
	if (pci_usable(w, pci, match, &ignored) == 0 &&
	    sysfs_link(dir, "physfn", &pf, &ignored) == SYSFS_ABSENT)
		strs_add(ret, pci);
}

int pci_find_vuid(const struct device_world *w, const char *vuid, const struct pci_match *match,
                  char ret[PCI_NAME_MAX], struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct str others AUTO(str_clear) = STR_INIT(1);
	struct strs all AUTO(strs_clear) = STRS_INIT;
	struct strs pfs AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(dir, &all, err) < 0)
		return -1;
	for (size_t i = 0; i < all.n; i++)
		add_usable_pf(w, all.v[i], match, &pfs);
	return by_vuid(w, &pfs, vuid, ret, &others, err);
}

static int in_domain(const struct device_world *w, const char *pci, const struct pci_match *match,
                     const struct strs *candidates, char ret[PCI_NAME_MAX], struct str *why,
                     struct err *err)
{
	char *others AUTO(free) = NULL;
	int rc = pci_usable(w, pci, match, err);

	if (rc == 0)
		snprintf(ret, PCI_NAME_MAX, "%s", pci);
	if (rc != PCI_ABSENT || candidates->n == 0)
		return rc;
	others = strs_join(candidates, ", ");
	str_addf(why, "; found in another domain: %s", others);
	return PCI_ABSENT;
}

static int in_only_domain(const struct device_world *w, const struct strs *candidates,
                          const struct pci_match *match, const struct strs *usable,
                          char ret[PCI_NAME_MAX], struct err *err)
{
	if (usable->n > 1)
		return refuse_ambiguous(
			usable,
			"the PCI address was published without a domain, and several "
			"domains have it",
			err);
	if (usable->n == 1) {
		snprintf(ret, PCI_NAME_MAX, "%s", usable->v[0]);
		return 0;
	}
	/* pci_usable() sets the error: the reason why that function is not usable. */
	return candidates->n ? pci_usable(w, candidates->v[0], match, err) : PCI_ABSENT;
}

int pci_resolve(const struct device_world *w, const struct pci_address *a, const char *vuid,
                const struct pci_match *match, char ret[PCI_NAME_MAX], struct str *why,
                struct err *err)
{
	struct strs candidates AUTO(strs_clear) = STRS_INIT;
	struct strs usable AUTO(strs_clear) = STRS_INIT;
	char pci[PCI_NAME_MAX];

	pci_format(a, pci);
	str_addf(why, "no PCI function %s%s%s in %s/bus/pci/devices", a->has_domain ? pci : pci + 5,
	         str_empty(vuid) ? "" : " of any domain with VUID ", str_empty(vuid) ? "" : vuid,
	         w->sysfs);
	if (same_in_any_domain(w, a, &candidates, err))
		return -1;
	if (a->has_domain && str_empty(vuid))
		return in_domain(w, pci, match, &candidates, ret, why, err);
	keep_usable(w, &candidates, match, &usable, why);
	if (!str_empty(vuid))
		return by_vuid(w, &usable, vuid, ret, why, err);
	return in_only_domain(w, &candidates, match, &usable, ret, err);
}
