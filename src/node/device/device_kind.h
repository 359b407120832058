/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of emulated function has to answer, and the kind of a volume or function. Private to
 * this room: elsewhere a kind is a pointer in struct device. No state, any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/device/device.h"
#include "node/device/pci.h"

struct device_hold; /* device_hold.h */

/* device_probe() passes on what the layers below it return. */
_Static_assert((int)DEVICE_ABSENT == SYSFS_ABSENT, "one value for absent");
_Static_assert(sizeof(((struct device *)0)->pci) == PCI_NAME_MAX, "device.h knows no pci.h");

/*
 * One kind. HACKING.md has the recipe for a new one. What may be NULL says so. `pci` names a
 * function of the kind that the driver may touch.
 */
struct device_kind {
	const char *name;         /* "NVMe", for texts */
	enum emulation emulation; /* of the volumes whose devices are of this kind */
	const char *driver;       /* the kernel driver that makes devices of a PCI function */
	/* Subsystems whose uevents may mean that a device came or went; NULL at the end. */
	const char *const *subsystems;
	/*
	 * What an operator can do; follows "SR-IOV is off (where): " in an error. NULL: functions
	 * of this kind have no VFs, and each of them is one that the DPU has plugged in, or not
	 * ours.
	 */
	const char *sriov_advice;
	/* Says which functions are of this kind. */
	struct pci_match (*functions)(const struct device_world *w);
	/* 0, or -1 INVALID_ARGUMENT: find() needs a fact that `want` does not have. */
	int (*check_want)(const struct device_want *want, struct err *err) MUST_CHECK;
	/*
	 * Is it certain already that a function which no driver holds is another volume's? 0, or -1
	 * FAILED_PRECONDITION: then it is not bound. NULL: nothing can be seen before it is bound.
	 */
	int (*check_unbound)(const struct device_world *w, const char *pci,
	                     const struct device_want *want, struct err *err) MUST_CHECK;
	/*
	 * device_find() below a function that the driver holds. Appends to `why`; the caller sets
	 * ret->kind.
	 */
	int (*find)(const struct device_world *w, const char *pci, const struct device_want *want,
	            struct device *ret, struct str *why, struct err *err) MUST_CHECK;
	/*
	 * The driver holds the function, and find() has found no device: does what the kernel
	 * leaves undone, or takes the function, which nobody can be using, from the driver to have
	 * it bound anew. Appends to `why` what did not work. NULL: there is nothing to do.
	 */
	void (*complete)(const struct device_world *w, const char *pci, struct str *why);
	/* Do the controllers of the function work? 0; DEVICE_NOT_LIVE: `why` says which not; -1. */
	int (*live)(const struct device_world *w, const char *pci, struct str *why, struct err *err)
		MUST_CHECK;
	/*
	 * Adds the names of all disks below the function to ret; for device_hold_disks(). NULL: the
	 * devices of this kind are no disks.
	 */
	int (*list)(const struct device_world *w, const char *pci, struct strs *ret,
	            struct err *err) MUST_CHECK;
	/*
	 * Is the function unused? 0: nobody uses a device below it, and nobody can begin to before
	 * ret is released. -1 FAILED_PRECONDITION: somebody does, or that is unknown; or, with
	 * `only` (may be NULL), another device than this is below it. Kinds of disks take
	 * device_hold_disks().
	 */
	int (*hold)(const struct device_kind *kind, const struct device_world *w, const char *pci,
	            const struct device *only, struct device_hold *ret, struct err *err) MUST_CHECK;
	/*
	 * Is the entry of class/block a hidden path of the disk? Then the disk belongs to the
	 * function of that path. NULL: disks of this kind have no paths.
	 */
	bool (*is_path_of)(const char *entry, const char *disk);
};

extern const struct device_kind device_kind_nvme;
extern const struct device_kind device_kind_virtiofs;

/* All kinds, NULL at the end. */
const struct device_kind *const *device_kinds(const struct device_world *w);
/* The kind of the wanted device; NULL and UNIMPLEMENTED: none has its emulation. */
const struct device_kind *device_kind_wanted(const struct device_world *w,
                                             const struct device_want *want, struct err *err);
/*
 * The kind of a function by its PCI class alone; pci_usable() says whether it may be touched. NULL:
 * no kind has this class, or the function has gone.
 */
const struct device_kind *device_kind_of(const struct device_world *w, const char *pci);
/* Is this a PF of the kind that is for volumes, or whose VFs are? */
bool device_kind_is_pf(const struct device_world *w, const struct device_kind *kind,
                       const char *pci);
/* The kind for which device_kind_is_pf() is true, or NULL. */
const struct device_kind *device_kind_of_pf(const struct device_world *w, const char *pci);

/* How far device_probe() got. */
enum device_stage {
	DEVICE_NO_FUNCTION,
	DEVICE_NO_DRIVER, /* from here on pci is set */
	DEVICE_PARKED,    /* a driver holds it without using it */
	DEVICE_BOUND,
};

struct device_sight {
	const struct device_kind *kind;
	enum device_stage stage;
	char pci[PCI_NAME_MAX];
};

/*
 * device_find() that also says how far it got (on 0 and DEVICE_ABSENT); its texts do not name the
 * volume.
 */
int device_probe(const struct device_world *w, const struct device_want *want, struct device *ret,
                 struct device_sight *ret_sight, struct str *why, struct err *err) MUST_CHECK;
/*
 * Appends to `why` what keeps a device away that device_probe() has not found, as far as the host
 * shows it. For the text of an error only: it reads each bridge of the host.
 */
void device_explain(const struct device_world *w, const struct device_want *want,
                    const struct device_sight *sight, struct str *why);
/*
 * The second half of device_probe(), for a function that it has named a moment ago: its driver and
 * its device, without the proof which function it is. Reading the VPD for that takes real hardware
 * milliseconds.
 */
int device_probe_below(const struct device_world *w, const struct device_want *want,
                       struct device *ret, struct device_sight *sight, struct str *why,
                       struct err *err) MUST_CHECK;
