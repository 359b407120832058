/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of emulated function has to answer, and which kind a volume or a function is of.
 * Private to this room: elsewhere a kind is a pointer in struct device. No state, any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/device/device.h"
#include "node/device/pci.h"

struct device_hold; /* device_hold.h */

/* What is absent below is passed on as it is. */
_Static_assert((int)DEVICE_ABSENT == SYSFS_ABSENT, "see device_look()");
_Static_assert(sizeof(((struct device *)0)->pci) == PCI_NAME_MAX, "device.h knows no pci.h");

/*
 * A new kind is a file with such a struct and a row in device_kind.c. What may be NULL says so.
 * Functions get the name of a PCI function that pci_usable() has let pass.
 */
struct device_kind {
	const char *name;         /* "NVMe", for texts */
	enum emulation emulation; /* of the volumes whose devices are of this kind */
	const char *driver;       /* the kernel driver that makes devices of a PCI function */
	/* NULL at the end: subsystems whose uevents may mean that a device came or went. */
	const char *const *subsystems;
	/* Completes "SR-IOV is off (where): ...": what the operator can do. */
	const char *sriov_advice;
	/* Which functions are of this kind. */
	struct pci_match (*functions)(const struct device_world *w);
	/* -1 INVALID_ARGUMENT: find() needs a fact that the attachment does not say. */
	int (*check_want)(const struct device_want *want, struct err *err) MUST_CHECK;
	/*
	 * As device_find(), below a function that the driver holds; appends to `why`. Leaves kind
	 * to the caller.
	 */
	int (*find)(const struct device_world *w, const char *pci, const struct device_want *want,
	            struct device *ret, struct str *why, struct err *err) MUST_CHECK;
	/* 0: the controllers of the function work; DEVICE_NOT_LIVE: `why` says which does not. */
	int (*live)(const struct device_world *w, const char *pci, struct str *why, struct err *err)
		MUST_CHECK;
	/* Names of all block devices below the function, added to ret; for device_hold_disks(). */
	int (*list)(const struct device_world *w, const char *pci, struct strs *ret,
	            struct err *err) MUST_CHECK;
	/*
	 * Does anybody use what is below the function? 0: nobody does, and nobody can begin to
	 * before ret is released. With `only`: nothing but this device is there, either. -1
	 * FAILED_PRECONDITION: it is in use, or that cannot be told. device_hold_disks() for a kind
	 * of block devices.
	 */
	int (*hold)(const struct device_kind *kind, const struct device_world *w, const char *pci,
	            const struct device *only, struct device_hold *ret, struct err *err) MUST_CHECK;
	/*
	 * Is the block entry a hidden path of the disk, so that it tells the disk's function? NULL:
	 * disks of this kind have none.
	 */
	bool (*is_path_of)(const char *entry, const char *disk);
};

extern const struct device_kind device_kind_nvme;

/* All kinds, NULL at the end. */
const struct device_kind *const *device_kinds(const struct device_world *w);
/* The kind of the wanted device; NULL and UNIMPLEMENTED: there is none of this emulation. */
const struct device_kind *device_kind_wanted(const struct device_world *w,
                                             const struct device_want *want, struct err *err);
/*
 * The kind of a function, by its PCI class alone: pci_usable() says whether it may be touched.
 * NULL: of none, or it has gone.
 */
const struct device_kind *device_kind_of(const struct device_world *w, const char *pci);
/* Is this a physical function of the kind, whose VFs are for volumes? */
bool device_kind_is_pf(const struct device_world *w, const struct device_kind *kind,
                       const char *pci);
/* The kind of which this is such a PF, or NULL. */
const struct device_kind *device_kind_of_pf(const struct device_world *w, const char *pci);

/* How far device_look() came. */
enum device_stage {
	DEVICE_NO_FUNCTION,
	DEVICE_NO_DRIVER, /* pci is set from here on */
	DEVICE_PARKED,    /* held by a driver that does not use it */
	DEVICE_BOUND,
};

struct device_sight {
	const struct device_kind *kind;
	enum device_stage stage;
	char pci[PCI_NAME_MAX];
};

/*
 * device_find() that also says how far it came (on 0 and DEVICE_ABSENT) and leaves the volume's
 * name out of its texts.
 */
int device_look(const struct device_world *w, const struct device_want *want, struct device *ret,
                struct device_sight *ret_sight, struct str *why, struct err *err) MUST_CHECK;
