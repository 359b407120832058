/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the kernel's device of a volume from the publish context: the block device of an NVMe
 * namespace (PCI function, namespace ID, UUID, size), or the virtio device of a virtio-fs share
 * (PCI function, tag). Only reads sysfs; does not use by-id links or recorded names.
 *
 * All paths are below the roots of struct device_world, so that tests can use recorded trees. Any
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
#include "volume/luks_name.h"
#include "volume/volume_params.h"

struct device_kind;  /* device_kind.h */
struct partition;    /* partitions.h */
struct sysfs_writer; /* sysfs.h */

struct device_world {
	const char *sysfs;                 /* "/sys" */
	const char *dev;                   /* "/dev" */
	const struct strs *vendors;        /* accepted PCI vendors, 4 lower-case digits: "15b3" */
	const char *snap_device_id;        /* PCI device ID of the emulated NVMe PF: "6001" */
	const char *proc;                  /* NULL: "/proc" */
	const struct sysfs_writer *writer; /* NULL: write the files; tests simulate a kernel */
	/* NULL at the end. NULL: the kinds of device_kind.c; tests supply their own kinds. */
	const struct device_kind *const *kinds;
	/* time in ms after which an access to a function is considered hung; 0: DEVICE_HANGS_MS */
	int64_t hang_ms;
};

/* The next step if the firmware has left too few bus numbers; the text of every such message. */
#define DEVICE_ASSIGN_BUSES "add pci=assign-busses to the kernel's arguments"
#define DEVICE_HANGS_MS 5000 /* in ms; longer than most driver probes take */
static inline int64_t device_hang_ms(const struct device_world *w)
{
	return w->hang_ms ? w->hang_ms : DEVICE_HANGS_MS;
}

enum device_function {
	DEVICE_FUNCTION_ANY, /* a VF, or a hot-plugged PF */
	DEVICE_FUNCTION_VF,
	DEVICE_FUNCTION_PF, /* hot-plugged */
	/*
	 * A PF that has existed since the DPU started, outside its hot-plug slots. Only the UUID of
	 * its namespace proves that the PF belongs to the volume, so both sides must have the UUID.
	 */
	DEVICE_FUNCTION_STATIC_PF,
};

/* The controller's data about the device. A field that is "" or 0 is unknown and not checked. */
struct device_want {
	const char *volume_id; /* prefix of error messages */
	const char *pci;       /* as published: "0000:26:0c.1", "26:0c.1", upper or lower case */
	const char *vuid;      /* VPD field VU of the function (for a VF: of its PF) */
	uint32_t nsid;         /* NVMe: never 0 */
	const char *uuid;      /* NVMe */
	uint64_t capacity;     /* NVMe: bytes; the device must not be smaller */
	const char *tag;       /* virtio-fs: accepted by device_tag_check(); else NULL */
	enum device_function function; /* requested by the StorageClass; virtio-fs: a PF */
	enum emulation emulation;      /* selects the kind of device; 0 is NVMe */
	/*
	 * NVMe: the device of a key/value namespace is its character device. False: such a
	 * namespace is refused, because the caller needs a disk.
	 */
	bool character;
	/*
	 * The caller has already seen the device, and has therefore skipped the steps that must
	 * precede the binding of its driver. So if the device is absent, device_wait() fails and
	 * does not try to restore it.
	 */
	bool seen;
};

/* Changes that device_wait() made to get the device, for device_abandon(). */
struct device_binding {
	bool done;
	char override_before[64];
	char parked_by[64]; /* the driver from which the function was unbound, or "" */
};

/*
 * Maximum size of a virtio-fs tag, in bytes. In the kernel, a tag of this size has no terminating
 * NUL.
 */
enum { DEVICE_TAG_MAX = 36 };

/*
 * For a virtio-fs device, only kind, name, pci, the fields of the tag and binding are set. It has
 * no device node, and is never passed to device_open().
 */
struct device {
	const struct device_kind *kind; /* NULL: no function of a known kind leads to it */
	/* "nvme0n1" (a multipath head, never a hidden path) or "virtio3" */
	char name[64];    /* key/value namespace: "ng0n1" */
	char path[512];   /* <dev root>/<name>; "" for a kind whose devices have no node */
	char pci[16];     /* "0000:26:0c.1" */
	dev_t devno;      /* 0 for a kind whose devices have no node */
	uint64_t size;    /* bytes */
	uint64_t diskseq; /* unique among disks until the next boot; 0: unknown */
	uint32_t nsid;
	char uuid[40]; /* "" if the kernel shows no UUID; key/value namespace: or NGUID */
	char tag[DEVICE_TAG_MAX + 4]; /* virtio-fs: the wanted tag; else "" */
	/*
	 * The kernel or the function itself has shown that this device has the tag. Then a mount of
	 * the tag is a mount of this device, because the kernel permits no second device with the
	 * same tag. If false, neither showed the tag (old kernel, lockdown), and mount(2) may reach
	 * another device.
	 */
	bool tag_proven;
	/*
	 * No other device of this host is bound to the driver virtiofs, so a mount of any tag
	 * reaches this device or fails.
	 */
	bool alone;
	/* The mapping of an encrypted volume: pci, nsid and uuid are those of the disk below it. */
	char mapping
		[LUKS_MAPPING_SIZE]; /* its name of device-mapper (mapping.h); "" for other devices */
	dev_t lower;                 /* the disk's number */
	uint64_t lower_size;         /* the disk's size, in bytes */
	bool read_only;              /* the kernel's ro attribute */
	bool character;              /* a character device, of size 0: a key/value namespace */
	struct device_binding binding; /* set by device_wait() only */
};

/*
 * Returns the size of the volume in bytes. The mapping of an encrypted volume is smaller than its
 * disk by the header.
 */
static inline uint64_t device_capacity(const struct device *dev)
{
	return dev->lower ? dev->lower_size : dev->size;
}

enum {
	DEVICE_ABSENT = 1,   /* there is no such device (yet, or any more) */
	DEVICE_NOT_LIVE = 1, /* the device exists, but does not work */
};

/*
 * Checks the tag of a virtio-fs volume. -1 INVALID_ARGUMENT: it is empty, longer than
 * DEVICE_TAG_MAX bytes, or has a slash or a control character, because tags appear in mount tables
 * and paths. The message has the tag, but not where it came from.
 */
int device_tag_check(const char *tag, struct err *err) MUST_CHECK;
/*
 * Searches for the device once. Returns 0 if it is found and agrees with every known field of
 * `want`. Returns DEVICE_ABSENT if the function, its driver, controller, namespace or disk is
 * missing, the controller is not live, the size is still 0, or no function is proven to have the
 * wanted VUID; `why` (may be NULL) names the missing item and its path. -1 INVALID_ARGUMENT: bad
 * address, nsid or tag. -1 FAILED_PRECONDITION: this driver may not use the function (class,
 * vendor, parent, not hot-plugged), the function is bound to another driver, several domains match,
 * two facts contradict each other (the message has both; for example the function's tag and the
 * wanted tag), or a device below another function has the wanted tag. -1 UNIMPLEMENTED: no kind has
 * the wanted emulation.
 *
 * DEVICE_ABSENT is also returned for a virtio-fs function that is unbound, or has just been bound
 * by its driver. Its tag may still be mountable, if the tag belongs to another device.
 */
int device_find(const struct device_world *w, const struct device_want *want, struct device *ret,
                struct str *why, struct err *err) MUST_CHECK;
/*
 * Returns true if DPF has published an NGUID in place of the UUID, which it does only for key/value
 * namespaces.
 */
bool device_wants_key_value(const struct device_want *want);
/*
 * Like device_find(), for the name in sysfs of a function that device_wait() has returned. Does not
 * verify again that the function is the volume's.
 */
int device_find_again(const struct device_world *w, const char *pci, const struct device_want *want,
                      struct device *ret, struct str *why, struct err *err) MUST_CHECK;
/*
 * Calls device_find() until the device is present. Binds a function without a driver to the driver
 * of its kind (driver_override, then bind), after unbinding it from a driver that only parks
 * functions (pci-stub). Clears driver_override once the device is found. -1 DEADLINE_EXCEEDED or
 * CANCELLED: the message ends with the last `why`. -1 UNAVAILABLE: want->seen is set, but the
 * device is absent. A failed wait undoes its changes, except that a function whose disks may be in
 * use stays bound, and the message says so. The deadline must leave time for the undo. A caller
 * that will use the device must get it from this call, not from device_find(); otherwise another
 * wait that fails may unbind its function.
 */
int device_wait(const struct device_world *w, const struct device_want *want, struct deadline d,
                struct device *ret, struct err *err) MUST_CHECK;
/*
 * Returns any block device by its number, as sysfs shows it now. Returns 0, DEVICE_ABSENT or -1.
 * pci is "" and kind NULL unless exactly one PCI function leads to the device; nsid is 0 if it is
 * not an NVMe namespace.
 */
int device_by_number(const struct device_world *w, dev_t devno, struct device *ret, struct err *err)
	MUST_CHECK;
/*
 * Returns the open mapping of an encrypted volume by its name of device-mapper (mapping.h). Returns
 * 0, DEVICE_ABSENT or -1. ret->lower is 0 if the disk below the mapping was removed.
 */
int device_by_mapping(const struct device_world *w, const char *mapping, struct device *ret,
                      struct err *err) MUST_CHECK;
/*
 * Compares nsid, UUID and size of this device with `want`. -1 FAILED_PRECONDITION: they differ, and
 * the message has both values.
 */
int device_check(const struct device *dev, const struct device_want *want, struct err *err)
	MUST_CHECK;
/*
 * Returns true if the device, just read from sysfs, is certainly the one that device_find() would
 * return. That requires a UUID on both sides, which replaces the proof by VPD. False proves
 * nothing: call device_find().
 */
bool device_is_surely(const struct device_world *w, const struct device *dev,
                      const struct device_want *want);
/*
 * Checks that all controllers of this device's function work. Returns 0 if they do, or
 * DEVICE_NOT_LIVE if one does not; `why` has its name and state.
 */
int device_controllers_live(const struct device_world *w, const struct device *dev, struct str *why,
                            struct err *err) MUST_CHECK;
/*
 * Opens the device node and verifies that it is this device: a block special file with st_rdev ==
 * devno, the size from BLKGETSIZE64 and, if both sides have one, the disk sequence number from
 * BLKGETDISKSEQ. flags: O_RDONLY, plus O_EXCL to detect whether it is in use; O_NONBLOCK and
 * O_CLOEXEC are always added. *ret_diskseq (may be NULL) is 0 if the kernel has no such number. -1
 * FAILED_PRECONDITION: the device differs, it is in use (O_EXCL), or the dev root is on a nodev
 * mount. -1 UNAVAILABLE: there is no device node.
 */
int device_open(const struct device *dev, int flags, int *ret_fd, uint64_t *ret_diskseq,
                struct err *err) MUST_CHECK;
/*
 * Verifies that the node of a character device has its number. -1 FAILED_PRECONDITION: it is
 * another node, or the dev root is on a nodev mount. -1 UNAVAILABLE: there is no node.
 */
int device_check_character(const struct device *dev, struct err *err) MUST_CHECK;
/*
 * Replaces the name of a disk of a key/value namespace by that of its character device: "nvme0n1"
 * by "ng0n1". Leaves the names of other disks unchanged.
 */
void device_show_key_value(const struct device_world *w, const char *disk, char ret[64]);
/*
 * Returns true if this errno of device_open() means that no driver has the device's number any
 * more, so no process can write to the device. Any other errno says nothing about the device.
 */
bool device_errno_is_gone(int errnum);
/*
 * Opens the device node of a partition for reading, and verifies that it is this partition of this
 * disk. Errors are those of device_open(); err->sys keeps ENOENT and ENXIO.
 */
int device_open_partition(const struct device *disk, const struct partition *p, int *ret_fd,
                          struct err *err) MUST_CHECK;
/*
 * Checks that the disk is not in use by a mount, RAID, LVM or a virtual machine, by opening it
 * exclusively. Waits a quarter of a second for short-lived holders, such as the kernel while it
 * rejects a mount of another volume whose disk had this name before. Errors are those of
 * device_open().
 */
int device_check_unused(const struct device *dev, struct err *err) MUST_CHECK;
/*
 * Undoes the changes of device_wait() if the returned device will not be used after all. A function
 * that was bound before stays bound. The function is unbound only if this is the only disk below it
 * and the disk can be opened exclusively. Otherwise it stays bound, driver_override is restored
 * anyway, and the result is -1 FAILED_PRECONDITION with the reason.
 */
int device_abandon(const struct device_world *w, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * To be called after unstage. Clears driver_override of the device's function if it names the
 * driver of its kind, because the Go plugin leaves it set. The function stays bound, because
 * unbinding takes minutes if its controller hangs. Returns 0 even for a device without a kind and
 * for a function that was removed.
 */
int device_release(const struct device_world *w, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * Checks whether a tag can be mounted now. mount(2) of any share takes a lock of the kernel's
 * virtiofs module, and a removal of a function that hangs keeps that lock. -1 UNAVAILABLE: a
 * removal is in progress, or a thread of this process hangs in an access to a function.
 */
int device_shares_answer(const struct device_world *w, struct err *err) MUST_CHECK;
enum { DEVICE_NOT_SET = 1 };
/*
 * Like device_release(), for one function of the host, by its name in sysfs. Returns 0 if
 * driver_override was cleared. Returns DEVICE_NOT_SET if it does not name a driver of volumes, or
 * if this driver may not use the function. For such a function, only attributes that cannot block
 * are read (sysfs.h).
 */
int device_recover(const struct device_world *w, const char *pci, struct err *err) MUST_CHECK;
/* Adds the names of all PCI functions of this host. */
int device_functions(const struct device_world *w, struct strs *ret, struct err *err) MUST_CHECK;
/*
 * Counts the functions to which volumes may be attached: the present VFs of SNAP PFs. Zero is not
 * an error. Appends to `where` (may be NULL) the searched paths and what they contain.
 */
int device_count_functions(const struct device_world *w, unsigned *ret_n, struct str *where,
                           struct err *err) MUST_CHECK;
/* Counts the PFs for NVMe volumes outside of the DPU's hot-plug slots. */
int device_count_static_pfs(const struct device_world *w, unsigned *ret_n, struct err *err)
	MUST_CHECK;
struct device_vfs {
	char pf[16]; /* "0000:26:00.0" */
	unsigned present, possible;
};
/*
 * Finds a static PF that supports more VFs than fit on one bus, while no more VFs are present than
 * fit. ret->possible is 0 if there is no such PF.
 */
int device_vfs_without_bus(const struct device_world *w, struct device_vfs *ret, struct err *err)
	MUST_CHECK;
/*
 * Counts the hot-plug slots of the DPU's PCIe switch that are empty, or whose function is for
 * volumes and not bound to another driver. Zero is not an error. Appends to `where` (may be NULL)
 * the searched paths and the unusable ports.
 */
int device_count_slots(const struct device_world *w, unsigned *ret_n, struct str *where,
                       struct err *err) MUST_CHECK;
/*
 * Adds the ports of that switch to which the host assigned no bus number. The kernel creates no
 * slot for such a port, so nothing can be plugged in there.
 */
int device_ports_without_bus(const struct device_world *w, struct strs *ret, struct err *err)
	MUST_CHECK;
/*
 * Creates all VFs of each SNAP PF without VFs (sriov_drivers_autoprobe 0, then sriov_numvfs); first
 * binds a PF without a driver to the driver of its kind. Does not change PFs that have VFs. Appends
 * its changes to `did`. Tries every PF; returns -1 with the first failure, or FAILED_PRECONDITION
 * if there are SNAP PFs that were not hot-plugged, and none of them can have VFs.
 */
int device_create_vfs(const struct device_world *w, struct str *did, struct err *err) MUST_CHECK;
