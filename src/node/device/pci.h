/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCI functions in sysfs: addresses, which function an address means, and whether this driver may
 * touch it. Reads only; pci_driver.h binds. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/str.h"
#include "node/device/device.h"
#include "node/device/sysfs.h"

/* There is no such function (yet, or any more), or no driver holds it. */
enum { PCI_ABSENT = SYSFS_ABSENT };

#define PCI_NAME_MAX 16 /* "0000:26:0c.1"; a domain may have 5 digits */

struct pci_address {
	uint32_t domain;
	bool has_domain; /* false: none was given, and domain is 0 */
	uint8_t bus, device, function;
};

/*
 * "[domain:]bus:device.function" in hexadecimal, any case; the domain may be short or empty.
 * INVALID_ARGUMENT: anything else, and 00:00.0 of any domain: that is a host bridge, and DPF
 * publishes this address while the host still boots.
 */
int pci_parse(const char *text, struct pci_address *ret, struct err *err) MUST_CHECK;
/* As sysfs names it: "0000:26:0c.1". */
void pci_format(const struct pci_address *a, char ret[PCI_NAME_MAX]);

/* Which functions are of one kind of device. Borrows from struct device_world. */
struct pci_match {
	uint16_t class_code;        /* upper 16 of the 24 bits of the PCI class */
	const struct strs *vendors; /* accepted ones, 4 lower-case hex digits each */
	const char *other_vendor;   /* accepted, too; NULL: none */
	const char *device_id;      /* the only accepted one; NULL: any */
	const char *pf_device_id;   /* device id of the PFs for volumes, or of whose VFs are */
};

/* <sysfs>/bus/pci/devices/<pci>, malloc'ed. */
char *pci_dir(const struct device_world *w, const char *pci);
/*
 * May this driver touch the function? 0: yes. PCI_ABSENT. -1 FAILED_PRECONDITION: no, and why: its
 * class, vendor or device id is another, or it is a VF of another PF.
 */
int pci_usable(const struct device_world *w, const char *pci, const struct pci_match *match,
               struct err *err) MUST_CHECK;
/* Name of the driver that holds the function, malloc'ed. PCI_ABSENT: none does, or it has gone. */
int pci_driver(const struct device_world *w, const char *pci, char **ret, struct err *err)
	MUST_CHECK;
/*
 * The function with this bus, device and function number. With a VUID: in any domain, the one whose
 * VPD (of a VF: its PF's) has the VUID in field VU; the given domain is ignored, as the publisher
 * does not know it. Without: in the given domain or, when none is given, in the only domain with a
 * usable function there. PCI_ABSENT: `why` says what is there instead. -1 FAILED_PRECONDITION: not
 * usable, or several match.
 */
int pci_resolve(const struct device_world *w, const struct pci_address *a, const char *vuid,
                const struct pci_match *match, char ret[PCI_NAME_MAX], struct str *why,
                struct err *err) MUST_CHECK;
/*
 * The PF whose VPD has this VUID, at whatever address: a hot-plugged function may come back in
 * another slot than the one that was published. PCI_ABSENT: none has it. -1 FAILED_PRECONDITION:
 * several have.
 */
int pci_find_vuid(const struct device_world *w, const char *vuid, const struct pci_match *match,
                  char ret[PCI_NAME_MAX], struct err *err) MUST_CHECK;
