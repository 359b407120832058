/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host with NVMe VFs whose namespaces are loop devices: a sysfs tree and a device directory below
 * a separate folder, for the real node code to run against. One PF (0000:26:00.0) with as many VFs
 * as there are disks, VF i at 0000:26:00.(i + 1), bound to the nvme driver. Any failure aborts.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/str.h"
#include "node/device/device.h"
#include "node/device/sysfs.h"

#define NVME_WORLD_DISKS 4

struct nvme_disk {
	char name[32]; /* "nvme1n1" */
	char pci[16];
	char *node; /* <dev>/nvme1n1 */
	char *image;
	char *dir; /* its directory in sysfs */
	uint32_t nsid;
	char uuid[40];
	uint64_t size;
	dev_t devno;   /* of the loop device */
	int fd;        /* keeps it in use; the last close frees it */
	char loop[32]; /* "/dev/loop3" */
};

/* Partition 1 of a loop device: 8 MiB behind the first MiB, with a node in <dev>. */
struct nvme_part {
	char *node; /* <dev>/loop3p1 */
	char name[40];
};

struct nvme_world {
	char *root, *sysfs, *dev;
	struct strs vendors;
	struct device_world world;
	struct sysfs_writer writer; /* acts as the kernel on bind and unbind */
	struct nvme_disk disks[NVME_WORLD_DISKS];
	size_t n;
};

/*
 * Gives this process and its children a private mount namespace, which ends with them. Needs root.
 */
void private_mounts(void);
void nvme_world_init(struct nvme_world *w);
/* A new VF with one namespace; uuid "" : the kernel shows none. */
struct nvme_disk *nvme_world_add(struct nvme_world *w, uint32_t nsid, const char *uuid,
                                 uint64_t size);
/*
 * Removes the namespace's entries, as when it is detached. The loop device stays, since it may be
 * mounted.
 */
void nvme_world_hide(struct nvme_world *w, struct nvme_disk *d);
void nvme_world_show(struct nvme_world *w, struct nvme_disk *d);
/* Detaches and attaches it: same bytes and identity, but another disk for the kernel. */
void nvme_world_reattach(struct nvme_world *w, struct nvme_disk *d);
/* Unbinds the disk's function, as after sriov_numvfs with autoprobe off. */
void nvme_world_unbind(struct nvme_world *w, struct nvme_disk *d);
void nvme_world_resize(struct nvme_disk *d, uint64_t size);
/* The kernel's own partition, which needs no table on the disk. */
void nvme_part_add(const struct nvme_world *w, const struct nvme_disk *d, struct nvme_part *ret);
void nvme_part_remove(const struct nvme_disk *d, struct nvme_part *p);
/* Writes one attribute of the namespace. */
void nvme_world_attr(const struct nvme_disk *d, const char *name, const char *text);
void nvme_world_clear(struct nvme_world *w);
/* Writes bytes at an offset through the device, so that its page cache has them, too. */
void nvme_disk_write(const struct nvme_disk *d, uint64_t offset, const void *bytes, size_t n);
/* Runs a shell command line in this process's mount namespace; aborts if it fails. */
void run_tool(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
