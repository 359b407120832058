/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of each kind of emulated function, and the mapping of volumes and functions to
 * kinds. Private to this directory; other code uses a kind only as a pointer in struct device. No
 * state, any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/device/device.h"
#include "node/device/pci.h"

struct device_hold; /* device_hold.h */

/* device_probe() returns the values of the functions below unchanged. */
_Static_assert((int)DEVICE_ABSENT == SYSFS_ABSENT, "one value for absent");
_Static_assert(sizeof(((struct device *)0)->pci) == PCI_NAME_MAX, "device.h knows no pci.h");

/*
 * One kind. HACKING.md describes how to add one. A member may be NULL only if its comment says so.
 * `pci` names a function of the kind that the driver may use.
 */
struct device_kind {
	const char *name;         /* for messages: "NVMe" */
	enum emulation emulation; /* emulation of the volumes whose devices are of this kind */
	const char *driver;       /* the kernel driver that creates devices for a PCI function */
	/*
	 * Subsystems whose uevents may mean that a device appeared or disappeared; NULL at the end.
	 */
	const char *const *subsystems;
	/*
	 * Advice for an operator, printed after "SR-IOV is off (where): " in an error. NULL:
	 * functions of this kind have no VFs, and each is either plugged in by the DPU or not for
	 * volumes.
	 */
	const char *sriov_advice;
	/* Returns the match for functions of this kind. */
	struct pci_match (*functions)(const struct device_world *w);
	/* Checks that `want` has what find() needs; otherwise -1 INVALID_ARGUMENT. */
	int (*check_want)(const struct device_want *want, struct err *err) MUST_CHECK;
	/*
	 * Checks a function that is not bound to a driver. -1 FAILED_PRECONDITION: it certainly
	 * belongs to another volume, so it must not be bound. NULL: nothing can be determined
	 * before it is bound.
	 */
	int (*check_unbound)(const struct device_world *w, const char *pci,
	                     const struct device_want *want, struct err *err) MUST_CHECK;
	/*
	 * Does the work of device_find() for a function that is bound to the driver. Appends to
	 * `why`; the caller sets ret->kind.
	 */
	int (*find)(const struct device_world *w, const char *pci, const struct device_want *want,
	            struct device *ret, struct str *why, struct err *err) MUST_CHECK;
	/*
	 * Called if the function is bound to the driver and find() has found no device. Takes a
	 * step that the kernel omits, or unbinds the function so that it is bound again; a function
	 * that is unbound here cannot be in use. Appends failures to `why`. NULL: there is no such
	 * step.
	 */
	void (*complete)(const struct device_world *w, const char *pci, struct str *why);
	/*
	 * Checks the controllers of the function. Returns 0 if all work. Returns DEVICE_NOT_LIVE if
	 * one does not; `why` names it.
	 */
	int (*live)(const struct device_world *w, const char *pci, struct str *why, struct err *err)
		MUST_CHECK;
	/*
	 * Adds the names of all disks below the function to ret; for device_hold_disks(). NULL: the
	 * devices of this kind are not disks.
	 */
	int (*list)(const struct device_world *w, const char *pci, struct strs *ret,
	            struct err *err) MUST_CHECK;
	/*
	 * Checks that the function is unused. Returns 0 if no device below it is in use; none can
	 * then be used until ret is released. -1 FAILED_PRECONDITION: a device is in use, or may
	 * be; or the function has a device other than `only` (unless NULL). Kinds of disks use
	 * device_hold_disks().
	 */
	int (*hold)(const struct device_kind *kind, const struct device_world *w, const char *pci,
	            const struct device *only, struct device_hold *ret, struct err *err) MUST_CHECK;
	/*
	 * Returns true if the entry of class/block is a hidden path of the disk. The disk then
	 * belongs to the function of that path. NULL: disks of this kind have no paths.
	 */
	bool (*is_path_of)(const char *entry, const char *disk);
};

extern const struct device_kind device_kind_nvme;
extern const struct device_kind device_kind_virtiofs;

/* Returns all kinds, NULL at the end. */
const struct device_kind *const *device_kinds(const struct device_world *w);
/*
 * Returns the kind of the wanted device. Returns NULL (UNIMPLEMENTED) if no kind has its emulation.
 */
const struct device_kind *device_kind_wanted(const struct device_world *w,
                                             const struct device_want *want, struct err *err);
/*
 * Returns the kind of a function by its PCI class only; pci_usable() checks whether the driver may
 * use it. Returns NULL if no kind has this class, or if the function was removed.
 */
const struct device_kind *device_kind_of(const struct device_world *w, const char *pci);
/* Returns true for a PF of this kind that is for volumes, or whose VFs are. */
bool device_kind_is_pf(const struct device_world *w, const struct device_kind *kind,
                       const char *pci);
/* Returns the kind for which device_kind_is_pf() is true, or NULL. */
const struct device_kind *device_kind_of_pf(const struct device_world *w, const char *pci);

/* How far device_probe() got. */
enum device_stage {
	DEVICE_NO_FUNCTION,
	DEVICE_NO_DRIVER, /* pci is set in this and later stages */
	DEVICE_PARKED,    /* bound to a driver that only reserves it */
	DEVICE_BOUND,
};

struct device_sight {
	const struct device_kind *kind;
	enum device_stage stage;
	char pci[PCI_NAME_MAX];
};

/*
 * Like device_find(), but also returns its progress (with 0 and DEVICE_ABSENT), and does not name
 * the volume in messages.
 */
int device_probe(const struct device_world *w, const struct device_want *want, struct device *ret,
                 struct device_sight *ret_sight, struct str *why, struct err *err) MUST_CHECK;
/*
 * Appends to `why` the reason why device_probe() has not found the device, if the host shows one.
 * Use it only for an error message, because it reads every bridge of the host.
 */
void device_explain(const struct device_world *w, const struct device_want *want,
                    const struct device_sight *sight, struct str *why);
/*
 * Does the second half of device_probe(), for a function that device_probe() has just returned:
 * checks the function's driver and searches for its device. It does not verify the function's
 * identity again, because that reads the VPD, which takes milliseconds on real hardware.
 */
int device_probe_below(const struct device_world *w, const struct device_want *want,
                       struct device *ret, struct device_sight *sight, struct str *why,
                       struct err *err) MUST_CHECK;
