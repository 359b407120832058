/* SPDX-License-Identifier: Apache-2.0 */
/* What device.c and device_wait.c share with the files of the kinds; private to this room. */
#pragma once

#include <stdint.h>

#include "node/device/device.h"
#include "node/device/pci.h"

/* One sort of emulated function. A new one is a file with such a struct and a row in device.c. */
struct device_kind {
	const char *name;    /* "NVMe", for texts */
	const char *driver;  /* the kernel driver that makes devices of it */
	uint16_t class_code; /* upper 16 of the 24 bits of its PCI class */
	/* As device_find(), below a function that the driver holds; appends to `why`. */
	int (*find)(const struct device_world *w, const char *pci, const struct device_want *want,
	            struct device *ret, struct str *why, struct err *err) MUST_CHECK;
	/* 0: the controllers of the function work; 1: one does not, `why` says which. */
	int (*live)(const struct device_world *w, const char *pci, struct str *why, struct err *err)
		MUST_CHECK;
	/* Names of all block devices below the function, added to ret. */
	int (*list)(const struct device_world *w, const char *pci, struct strs *ret,
	            struct err *err) MUST_CHECK;
};

extern const struct device_kind device_kind_nvme;

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
 * device_find() that also says how far it came (on 0 and 1) and leaves the volume's name out of its
 * texts.
 */
int device_look(const struct device_world *w, const struct device_want *want, struct device *ret,
                struct device_sight *ret_sight, struct str *why, struct err *err) MUST_CHECK;
/* Is this function a physical one that the DPU makes VFs of? */
bool device_is_snap_pf(const struct device_world *w, const char *pci);
