/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCI functions in sysfs: parses addresses, finds the function at an address, and checks whether
 * this driver may use it. Only reads; pci_driver.h binds. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/str.h"
#include "node/device/device.h"
#include "node/device/sysfs.h"

/* There is no such function (yet, or any more), or it is not bound to a driver. */
enum { PCI_ABSENT = SYSFS_ABSENT };

#define PCI_NAME_MAX 16 /* "0000:26:0c.1"; a domain may have 5 digits */

struct pci_address {
	uint32_t domain;
	bool has_domain; /* false: the text has no domain; `domain` is 0 */
	uint8_t bus, device, function;
};

/*
 * Parses "[domain:]bus:device.function" in hexadecimal, any case; the domain may be short or empty.
 * INVALID_ARGUMENT: any other text; also 00:00.0 of any domain, which is a host bridge, because DPF
 * publishes this address while the host still boots.
 */
int pci_parse(const char *text, struct pci_address *ret, struct err *err) MUST_CHECK;
/* Formats the address as in sysfs: "0000:26:0c.1". */
void pci_format(const struct pci_address *a, char ret[PCI_NAME_MAX]);

/* Selects the functions of one kind of device. Borrows from struct device_world. */
struct pci_match {
	uint16_t class_code;        /* upper 16 of the 24 bits of the PCI class */
	const struct strs *vendors; /* accepted vendors, 4 lower-case hex digits each */
	const char *other_vendor;   /* one more accepted vendor; NULL: none */
	const char *device_id;      /* the only accepted device ID; NULL: any */
	const char *pf_device_id;   /* device ID of PFs for volumes, and of PFs whose VFs are */
};

/* Returns <sysfs>/bus/pci/devices/<pci>, malloc'ed. */
char *pci_dir(const struct device_world *w, const char *pci);
/*
 * Checks whether this driver may use the function. Returns 0 if it may, or PCI_ABSENT. -1
 * FAILED_PRECONDITION: the class, vendor or device ID differs, or the function is a VF of a PF that
 * is not for volumes.
 */
int pci_usable(const struct device_world *w, const char *pci, const struct pci_match *match,
               struct err *err) MUST_CHECK;
/*
 * Returns the name of the driver to which the function is bound, malloc'ed. Returns PCI_ABSENT if
 * it is not bound, or was removed.
 */
int pci_driver(const struct device_world *w, const char *pci, char **ret, struct err *err)
	MUST_CHECK;
/*
 * Finds the function with this bus, device and function number. If a VUID is given, searches all
 * domains for the function whose VPD (for a VF: the VPD of its PF) has the VUID in field VU, and
 * ignores the given domain, because the publisher does not know it. Without a VUID, searches the
 * given domain. If no domain is given either, only one domain may have a usable function there.
 * PCI_ABSENT: `why` lists the functions found instead. -1 FAILED_PRECONDITION: the function is not
 * usable, or several match.
 */
int pci_resolve(const struct device_world *w, const struct pci_address *a, const char *vuid,
                const struct pci_match *match, char ret[PCI_NAME_MAX], struct str *why,
                struct err *err) MUST_CHECK;
/*
 * Finds the PF whose VPD has this VUID, at any address, because a hot-plugged function may reappear
 * in a slot that differs from the published one. Returns PCI_ABSENT if no PF has the VUID. -1
 * FAILED_PRECONDITION: several PFs have it.
 */
int pci_find_vuid(const struct device_world *w, const char *vuid, const struct pci_match *match,
                  char ret[PCI_NAME_MAX], struct err *err) MUST_CHECK;
