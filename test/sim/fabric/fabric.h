/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hardware: per node a sysfs tree with a SNAP PF and its VFs, and loop devices that play the
 * NVMe
 * namespaces on them. The tree has the shape of recorded ones (test/data/sysfs).
 *
 *   <state>/<node>/sys   for --sysfs-root of the driver
 *   <state>/<node>/dev   for --dev-root
 *
 * What the host writes is obeyed as the kernel would: drivers/nvme/{bind,unbind}, drivers_probe,
 * driver_override, sriov_numvfs, sriov_drivers_autoprobe. Any thread may call; one mutex
 * serialises everything, file operations included, as the kernel's own locks would.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "test/sim/fabric/function.h"
#include "test/sim/base/faults.h"
#include "test/sim/base/options.h"

struct fabric;

struct fabric_namespace {
	const char *node;
	enum function_kind kind;
	unsigned index;
	const char *ns, *volume; /* of the DPUVolume: names the image */
	uint32_t nsid;
	const char *uuid;
	uint64_t bytes;
};

/*
 * Makes the trees of all --node. FAILED_PRECONDITION when that cannot be done here (not root,
 * nodev).
 */
int fabric_new(const struct sim_options *o, struct faults *faults, struct fabric **ret,
               struct err *err) MUST_CHECK;
/* Detaches everything and removes it from disk; returns NULL. */
struct fabric *fabric_free(struct fabric *f);
const char *fabric_path(const struct fabric *f);

/*
 * The DPU attaches a namespace: its loop device is made now, the host sees it when the function is
 * bound. Showing what is shown is fine. A node without a tree (not one of --node): nothing.
 */
int fabric_show(struct fabric *f, const struct fabric_namespace *n, struct err *err) MUST_CHECK;
/* The DPU detaches it: gone from the host at once, even from under a mount. */
int fabric_hide(struct fabric *f, const struct fabric_namespace *n, struct err *err) MUST_CHECK;
/* The volume's data. */
int fabric_remove_image(struct fabric *f, const char *ns, const char *volume, struct err *err)
	MUST_CHECK;
int fabric_grow(struct fabric *f, const char *ns, const char *volume, uint64_t bytes,
                struct err *err) MUST_CHECK;
/* Faults have changed. */
void fabric_poke(struct fabric *f);
