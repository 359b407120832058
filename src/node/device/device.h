/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Which block device is this volume?"  From the publish context (PCI function,
 * namespace id, UUID, size) to one kernel block device, through sysfs only, or
 * a refusal. Never by-id links, never recorded names.
 *
 * All paths are below the roots of struct device_world, so that recorded trees serve
 * as well as the real one. Any thread; the only state is who waits for which function.
 *
 * Sources: Documentation/ABI/testing/sysfs-bus-pci, drivers/nvme/host/{core,multipath,sysfs}.c,
 * PCI Local Bus 3.0 appendix I (VPD).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"
#include "volume/volume_params.h"

struct device_kind;  /* device_kind.h */
struct sysfs_writer; /* sysfs.h */

struct device_world {
	const char *sysfs;                 /* "/sys" */
	const char *dev;                   /* "/dev" */
	const struct strs *vendors;        /* accepted PCI vendors, 4 lower-case digits: "15b3" */
	const char *snap_device_id;        /* PCI device id of the emulated NVMe PF: "6001" */
	const struct sysfs_writer *writer; /* NULL: sysfs is written; tests put a kernel here */
	/* Ends with NULL. NULL: the kinds of device_kind.c; tests bring kinds of their own. */
	const struct device_kind *const *kinds;
};

enum device_function { DEVICE_FUNCTION_ANY, DEVICE_FUNCTION_VF, DEVICE_FUNCTION_PF };

/* What the controller says about the device; a field that is "" or 0 is unknown, not checked. */
struct device_want {
	const char *volume_id; /* put in front of error texts */
	const char *pci;       /* as published: "0000:26:0c.1", "26:0c.1", upper or lower case */
	const char *vuid;      /* VPD field VU of the function (a VF: of its PF) */
	uint32_t nsid;         /* never 0 */
	const char *uuid;
	uint64_t capacity;             /* bytes; the device must have at least these */
	enum device_function function; /* where the StorageClass says it */
	enum emulation emulation;      /* chooses the kind of device; 0 is NVMe */
};

/* What a device_wait() changed to get at its device, for device_abandon(). */
struct device_binding {
	bool done;
	char override_before[64];
	char parked_by[64]; /* the driver it was taken from, or "" */
};

struct device {
	const struct device_kind *kind; /* NULL: it stands below no function of a known kind */
	char name[64];   /* "nvme0n1": head of a multipath namespace, never a hidden path */
	char path[4096]; /* <dev root>/<name>; "" for a kind whose devices have no node */
	char pci[16];    /* "0000:26:0c.1" */
	dev_t devno;
	uint64_t size;    /* bytes */
	uint64_t diskseq; /* no other disk gets this number before the next boot; 0: unknown */
	uint32_t nsid;
	char uuid[40];                 /* "" when the kernel shows none */
	bool read_only;                /* the kernel's ro attribute */
	struct device_binding binding; /* of device_wait() only */
};

enum {
	DEVICE_ABSENT = 1,   /* it is not there (yet, or any more) */
	DEVICE_NOT_LIVE = 1, /* it is there, but does not work just now */
};

/*
 * Looks once. 0: found and everything that is known agrees. DEVICE_ABSENT: function, driver,
 * controller, live state, namespace or disk missing, or size still 0; or, with a VUID, no function
 * that is proven to have it; `why` (may be NULL) then says what is missing and where it was looked
 * for. -1: INVALID_ARGUMENT bad address or nsid; FAILED_PRECONDITION the address is no function
 * that this driver may use (class, vendor, parent), another driver holds it, several domains match,
 * or a contradiction naming both sides.
 */
int device_find(const struct device_world *w, const struct device_want *want, struct device *ret,
                struct str *why, struct err *err) MUST_CHECK;
/*
 * device_find() until it is there: binds the function to the nvme driver when no driver holds it
 * (driver_override + bind), then waits for the namespace; driver_override is cleared when that is
 * there. Ends with DEADLINE_EXCEEDED or CANCELLED and the last `why`; the caller's deadline leaves
 * time for that. When it fails, what it changed is put back; a function below which a disk may be
 * in use stays bound, and the text says so.
 * A function is taken from another driver only when that one merely parks it (pci-stub).
 * A volume is taken into use through this call, not device_find(): then no other call that
 * gives up on the same function unbinds it.
 */
int device_wait(const struct device_world *w, const struct device_want *want, struct deadline d,
                struct device *ret, struct err *err) MUST_CHECK;
/*
 * The device by its number, as sysfs has it now: who is mounted here? 0; DEVICE_ABSENT; -1. Any
 * block device; pci is "" and kind NULL unless exactly one PCI function leads to it, nsid 0 when it
 * is no NVMe namespace.
 */
int device_by_number(const struct device_world *w, dev_t devno, struct device *ret, struct err *err)
	MUST_CHECK;
/*
 * Does this device fulfil `want` (nsid, UUID, size)? 0, or -1 FAILED_PRECONDITION naming both
 * sides.
 */
int device_check(const struct device *dev, const struct device_want *want, struct err *err)
	MUST_CHECK;
/*
 * Are all controllers of this device's function at work? 0; DEVICE_NOT_LIVE: one is not, and
 * `why` names it and its state; -1.
 */
int device_controllers_live(const struct device_world *w, const struct device *dev, struct str *why,
                            struct err *err) MUST_CHECK;
/*
 * Opens the node and proves that it is this device: a block special file, st_rdev == devno, size by
 * BLKGETSIZE64, disk number by BLKGETDISKSEQ where both sides have one.
 * flags: O_RDONLY, plus O_EXCL for the in-use check; O_NONBLOCK and O_CLOEXEC are always added.
 * *ret_diskseq (may be NULL) is 0 when the kernel has none. In use with O_EXCL, or a dev root on a
 * nodev mount (named): FAILED_PRECONDITION. No node: UNAVAILABLE.
 */
int device_open(const struct device *dev, int flags, int *ret_fd, uint64_t *ret_diskseq,
                struct err *err) MUST_CHECK;
/*
 * The device that device_wait() returned will not be used after all: what that call changed is put
 * back (nothing, when the function was bound before). The function is unbound only when this disk
 * is the only one below it and can be held exclusively; else -1 FAILED_PRECONDITION says why it
 * stays bound, with driver_override put back all the same.
 */
int device_abandon(const struct device_world *w, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * After unstage: clears driver_override of the device's function if it names the driver of its
 * kind, as who staged may have left it (the Go plugin does). The function stays bound: unbinding
 * one whose controller hangs takes minutes. A device without a kind and a function that has gone
 * are fine.
 */
int device_release(const struct device_world *w, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * The same for every function that this driver may use, in use or not. Tries all; -1 with the first
 * failure. `did` is told which.
 */
int device_release_all(const struct device_world *w, struct str *did, struct err *err) MUST_CHECK;
/*
 * Functions that volumes may be attached to: VFs of SNAP PFs, as they are now. 0 and *ret_n = 0
 * when there is none; `where` (may be NULL) says where it was looked and what is there.
 */
int device_count_functions(const struct device_world *w, unsigned *ret_n, struct str *where,
                           struct err *err) MUST_CHECK;
/*
 * Makes all VFs of each SNAP PF that has none yet (sriov_drivers_autoprobe 0, then sriov_numvfs); a
 * PF without a driver is given to the driver of its kind first. PFs that have VFs are left alone.
 * `did` is told what was made, nothing when nothing was. Tries every PF; -1 with the first failure;
 * FAILED_PRECONDITION when there are SNAP PFs and none of them can have VFs.
 */
int device_create_vfs(const struct device_world *w, struct str *did, struct err *err) MUST_CHECK;
