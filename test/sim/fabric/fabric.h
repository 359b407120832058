/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hardware: for each node a sysfs tree with a SNAP PF and its VFs, loop devices that represent
 * the NVMe namespaces on them, and daemons that represent virtio-fs devices. The tree has the shape
 * of recorded ones (test/data/sysfs).
 *
 *   <state>/<node>/sys   for --sysfs-root of the driver
 *   <state>/<node>/dev   for --dev-root
 *
 *   <state>/<node>/tags  where the host's virtio-fs tags are mounted
 *
 * The fabric acts as the kernel when the host writes to bind and unbind of drivers/nvme and
 * drivers/virtio-pci, drivers_probe, driver_override, sriov_numvfs or sriov_drivers_autoprobe. Any
 * thread may call. One mutex serialises everything, including file operations, as the kernel's own
 * locks would.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "test/sim/base/faults.h"
#include "test/sim/base/options.h"
#include "test/sim/fabric/function.h"

struct fabric;

struct fabric_namespace {
	const char *node;
	enum function_kind kind;
	unsigned index;
	const char *ns, *volume; /* namespace and name of the DPUVolume; they name the image */
	uint32_t nsid;
	const char *uuid;
	bool key_value; /* the host has no disk for it, and `uuid` is an NGUID without dashes */
	uint64_t bytes;
	/* NULL; otherwise it is not a namespace but a folder, shared by virtio-fs */
	const char *tag;
};

/*
 * Creates the trees of all --node. FAILED_PRECONDITION: not root, or the directory cannot be used.
 */
int fabric_new(const struct sim_options *o, struct faults *faults, struct fabric **ret,
               struct err *err) MUST_CHECK;
/* Detaches everything and removes all files; returns NULL. */
struct fabric *fabric_free(struct fabric *f);
const char *fabric_path(const struct fabric *f);

/*
 * The DPU attaches a namespace or a folder. A loop device is created now; the host sees it while
 * the function is bound. Does nothing if it is already shown, or if the node is not one of --node.
 */
int fabric_show(struct fabric *f, const struct fabric_namespace *n, struct err *err) MUST_CHECK;
/* The DPU detaches it: it disappears from the host at once, even if it is mounted. */
int fabric_hide(struct fabric *f, const struct fabric_namespace *n, struct err *err) MUST_CHECK;
/* Removes the data of a volume, image or folder. */
int fabric_remove_image(struct fabric *f, const char *ns, const char *volume, struct err *err)
	MUST_CHECK;
/* Enlarges the image of a volume, and the devices over it. */
int fabric_grow(struct fabric *f, const char *ns, const char *volume, uint64_t bytes,
                struct err *err) MUST_CHECK;
/* Re-reads the faults. */
void fabric_poke(struct fabric *f);
