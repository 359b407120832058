/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the kernel's device of a volume from the publish context, or refuses: the block device of
 * an NVMe namespace (PCI function, namespace id, UUID, size), or the virtio device of a shared
 * folder (PCI function, tag). Reads sysfs only: by-id links and recorded names are never used.
 *
 * All paths are below the roots of struct device_world, so that tests use recorded trees. Any
 * thread; the only state is the list of calls that wait for a function (device_users.h).
 *
 * Sources: Documentation/ABI/testing/{sysfs-bus-pci,sysfs-fs-virtiofs},
 * drivers/nvme/host/{core,multipath,sysfs}.c, fs/fuse/virtio_fs.c, PCI Local Bus 3.0 appendix I
 * (VPD), Virtio 1.2 sections 4.1.4 and 5.11.
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
struct partition;    /* partitions.h */
struct sysfs_writer; /* sysfs.h */

struct device_world {
	const char *sysfs;                 /* "/sys" */
	const char *dev;                   /* "/dev" */
	const struct strs *vendors;        /* accepted PCI vendors, 4 lower-case digits: "15b3" */
	const char *snap_device_id;        /* PCI device id of the emulated NVMe PF: "6001" */
	const char *proc;                  /* NULL: "/proc" */
	const struct sysfs_writer *writer; /* NULL: files are written; tests simulate a kernel */
	/* NULL at the end. NULL: the kinds of device_kind.c; tests bring kinds of their own. */
	const struct device_kind *const *kinds;
	int64_t hang_ms; /* an access to a function that takes longer hangs; 0: DEVICE_HANGS_MS */
};

#define DEVICE_HANGS_MS 5000 /* most probes have ended */
static inline int64_t device_hang_ms(const struct device_world *w)
{
	return w->hang_ms ? w->hang_ms : DEVICE_HANGS_MS;
}

enum device_function { DEVICE_FUNCTION_ANY, DEVICE_FUNCTION_VF, DEVICE_FUNCTION_PF };

/* What the controller says about the device. A field that is "" or 0 is unknown, not checked. */
struct device_want {
	const char *volume_id; /* put in front of error texts */
	const char *pci;       /* as published: "0000:26:0c.1", "26:0c.1", upper or lower case */
	const char *vuid;      /* VPD field VU of the function (a VF: of its PF) */
	uint32_t nsid;         /* NVMe: never 0 */
	const char *uuid;      /* NVMe */
	uint64_t capacity;     /* NVMe: bytes; the device must not be smaller */
	const char *tag;       /* virtio-fs: as device_tag_check() accepts it; else NULL */
	enum device_function function; /* as the StorageClass asks for it; virtio-fs: a PF */
	enum emulation emulation;      /* chooses the kind of device; 0 is NVMe */
	/*
	 * The caller has seen the device, and has therefore not done what must be done before it
	 * gets its drivers: when it is not there, device_wait() does nothing to get it back.
	 */
	bool seen;
};

/* What device_wait() changed to get the device, for device_abandon(). */
struct device_binding {
	bool done;
	char override_before[64];
	char parked_by[64]; /* the driver it was taken from, or "" */
};

/* Bytes of a virtio-fs tag; its name in the kernel has no NUL behind 36 of them. */
enum { DEVICE_TAG_MAX = 36 };

/*
 * Of a virtio-fs device only kind, name, pci, the fields of the tag and binding are set: it has no
 * node, and is never given to device_open().
 */
struct device {
	const struct device_kind *kind; /* NULL: it stands below no function of a known kind */
	/* "nvme0n1": head of a multipath namespace, never a hidden path; or "virtio3" */
	char name[64];
	char path[512];   /* <dev root>/<name>; "" for a kind whose devices have no node */
	char pci[16];     /* "0000:26:0c.1" */
	dev_t devno;      /* 0 for a kind whose devices have no node */
	uint64_t size;    /* bytes */
	uint64_t diskseq; /* no other disk gets it before the next boot; 0: unknown */
	uint32_t nsid;
	char uuid[40];                /* "" when the kernel shows none */
	char tag[DEVICE_TAG_MAX + 4]; /* virtio-fs: the wanted one; else "" */
	/*
	 * The kernel or the function itself has shown that this device has the tag. Then a mount of
	 * the tag is a mount of this device: the kernel keeps two devices from having one tag. When
	 * false, neither could be read (old kernel, lockdown), and mount(2) may reach another one.
	 */
	bool tag_proven;
	/*
	 * The driver virtiofs holds no other device of this host, so a mount of any tag reaches
	 * this one, or none.
	 */
	bool alone;
	bool read_only;                /* the kernel's ro attribute */
	struct device_binding binding; /* set by device_wait() only */
};

enum {
	DEVICE_ABSENT = 1,   /* there is no such device (yet, or any more) */
	DEVICE_NOT_LIVE = 1, /* the device exists, but does not work now */
};

/*
 * May this be the tag of a virtio-fs volume? 0, or -1 INVALID_ARGUMENT: it is empty, longer than
 * DEVICE_TAG_MAX bytes, or has a slash or a control character (a tag is put into mount tables and
 * paths); the text has the tag, not where it comes from.
 */
int device_tag_check(const char *tag, struct err *err) MUST_CHECK;
/*
 * Looks once. 0: the device is found and every known fact agrees. DEVICE_ABSENT: the function, its
 * driver, controller, namespace or disk is missing, the controller is not live, the size is still
 * 0, or no function is proven to have the wanted VUID; `why` (may be NULL) says what is missing,
 * and where. -1 INVALID_ARGUMENT: bad address, nsid or tag. -1 FAILED_PRECONDITION: this driver may
 * not use the function (class, vendor, parent, not hot-plugged), another driver holds it, several
 * domains match, two facts contradict each other (the text has both: also a tag that the function
 * has, and the wanted one), or a device below another function has the wanted tag. -1
 * UNIMPLEMENTED: no kind has the wanted emulation.
 *
 * A virtio-fs function that no driver holds, or whose driver has just taken it, is DEVICE_ABSENT:
 * its tag may be mountable all the same, when it is another device's.
 */
int device_find(const struct device_world *w, const struct device_want *want, struct device *ret,
                struct str *why, struct err *err) MUST_CHECK;
/*
 * Calls device_find() until the device is there. A function without a driver is bound to the driver
 * of its kind (driver_override, then bind); a driver that only parks functions (pci-stub) loses it
 * to that one. driver_override is cleared once the device is found. -1 DEADLINE_EXCEEDED or
 * CANCELLED: the text ends with the last `why`. -1 UNAVAILABLE: a device that was seen is not
 * there now. A wait that fails undoes what it changed, but a function whose disks may be in use
 * stays bound, and the text says so; the deadline must leave time for the undoing. Who is going to
 * use the device must get it from this call, not from device_find(): then no other wait that fails
 * unbinds its function.
 */
int device_wait(const struct device_world *w, const struct device_want *want, struct deadline d,
                struct device *ret, struct err *err) MUST_CHECK;
/*
 * Any block device by its number, as sysfs shows it now. 0, DEVICE_ABSENT or -1. pci is "" and kind
 * NULL unless exactly one PCI function leads to it; nsid is 0 when it is no NVMe namespace.
 */
int device_by_number(const struct device_world *w, dev_t devno, struct device *ret, struct err *err)
	MUST_CHECK;
/*
 * Do nsid, UUID and size of this device agree with `want`? 0, or -1 FAILED_PRECONDITION: the text
 * has both sides.
 */
int device_check(const struct device *dev, const struct device_want *want, struct err *err)
	MUST_CHECK;
/*
 * Is it certain, from what sysfs has just said of this device, that device_find() leads to it? Only
 * when both sides have a UUID: it proves what otherwise the VPD has to. False says nothing: ask
 * device_find().
 */
bool device_is_surely(const struct device_world *w, const struct device *dev,
                      const struct device_want *want);
/*
 * Do all controllers of this device's function work? 0; DEVICE_NOT_LIVE: one does not, and `why`
 * names it and its state; -1.
 */
int device_controllers_live(const struct device_world *w, const struct device *dev, struct str *why,
                            struct err *err) MUST_CHECK;
/*
 * Opens the node and proves that it is this device: a block special file, st_rdev == devno, size by
 * BLKGETSIZE64, disk number by BLKGETDISKSEQ where both sides have one. flags: O_RDONLY, plus
 * O_EXCL to learn whether it is in use; O_NONBLOCK and O_CLOEXEC are always added. *ret_diskseq
 * (may be NULL) is 0 when the kernel has no such number. -1 FAILED_PRECONDITION: it is another
 * device, it is in use (O_EXCL), or the dev root is on a nodev mount (named). -1 UNAVAILABLE: there
 * is no node.
 */
int device_open(const struct device *dev, int flags, int *ret_fd, uint64_t *ret_diskseq,
                struct err *err) MUST_CHECK;
/*
 * Does this errno of device_open() mean that the device's number has no driver any more? Then no
 * process can write to the device. Any other errno says nothing about the device.
 */
bool device_errno_is_gone(int errnum);
/*
 * Opens the node of a partition for reading, and verifies that it is this partition of this disk.
 * Errors as for device_open(); ENOENT and ENXIO stay in err->sys.
 */
int device_open_partition(const struct device *disk, const struct partition *p, int *ret_fd,
                          struct err *err) MUST_CHECK;
/*
 * Does nobody use the disk: no mount, no RAID or LVM, no virtual machine? Asks by opening it
 * exclusively. Who holds it for a moment only is waited for, a quarter of a second: the kernel
 * while it refuses a mount of another volume, whose disk had this name before. Errors as of
 * device_open().
 */
int device_check_unused(const struct device *dev, struct err *err) MUST_CHECK;
/*
 * Undoes what device_wait() changed, when the device that it returned will not be used after all; a
 * function that was bound before stays so. The function is unbound only when this disk is the only
 * one below it and can be opened exclusively. Else it stays bound, -1 FAILED_PRECONDITION says why,
 * and driver_override is restored all the same.
 */
int device_abandon(const struct device_world *w, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * After unstage: clears driver_override of the device's function when it names the driver of its
 * kind; the Go plugin leaves it so. The function stays bound: unbinding takes minutes while its
 * controller hangs. 0, too, for a device without a kind and a function that has gone.
 */
int device_release(const struct device_world *w, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * May a tag be mounted? mount(2) of any share takes a lock of the kernel's virtiofs module, and the
 * removal of a function keeps that lock while it hangs. -1 UNAVAILABLE: a removal is in progress,
 * or a thread of this process hangs at a function.
 */
int device_shares_answer(const struct device_world *w, struct err *err) MUST_CHECK;
enum { DEVICE_NOT_SET = 1 };
/*
 * The same for one function of the host, by its name in sysfs. 0: driver_override was cleared.
 * DEVICE_NOT_SET: it names none of our drivers, or the function is not one that this driver may
 * use: of such a function, only attributes that the kernel answers from memory are read (sysfs.h).
 */
int device_recover(const struct device_world *w, const char *pci, struct err *err) MUST_CHECK;
/* Adds the names of all PCI functions of this host. */
int device_functions(const struct device_world *w, struct strs *ret, struct err *err) MUST_CHECK;
/*
 * Counts the functions that volumes may be attached to: the VFs of SNAP PFs, as they are now. None
 * is no error. `where` (may be NULL) says where it looked and what is there.
 */
int device_count_functions(const struct device_world *w, unsigned *ret_n, struct str *where,
                           struct err *err) MUST_CHECK;
/*
 * Counts the hot-plug slots of the DPU's PCIe switch that are empty or have a function for volumes
 * that nobody else holds. None is no error. Appends to `where` (may be NULL) where it looked, and
 * which ports cannot be used.
 */
int device_count_slots(const struct device_world *w, unsigned *ret_n, struct str *where,
                       struct err *err) MUST_CHECK;
/*
 * Adds the ports of that switch for which the host had no bus number: the kernel makes no slot of
 * them, and nothing can be plugged there.
 */
int device_ports_without_bus(const struct device_world *w, struct strs *ret, struct err *err)
	MUST_CHECK;
/*
 * Makes all VFs of each SNAP PF that has none yet (sriov_drivers_autoprobe 0, then sriov_numvfs); a
 * PF without a driver is given to the driver of its kind first. PFs that have VFs are left alone.
 * Appends what it made to `did`. Tries every PF; -1 with the first failure, or FAILED_PRECONDITION
 * when there are SNAP PFs that were not hot-plugged, and none of them can have VFs.
 */
int device_create_vfs(const struct device_world *w, struct str *did, struct err *err) MUST_CHECK;
