/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of virtio-fs functions: a DPU's switch with four slots, a virtio-fs function
 * in the second, and devices that must not be touched: a plugged and a static NVMe function, and a
 * virtual machine's own network card and share. Any failure fails the running test.
 */
#pragma once

#include "common/cleanup.h"
#include "node/device/device.h"
#include "test/lib/kernel.h"
#include "test/lib/tree.h"
#include "test/lib/virtio_function.h"

#define DEVICES "/sys/bus/pci/devices/"
#define PLUGGED_NVME "0000:22:00.0"
#define SHARE "0000:23:00.0"
#define SECOND "0000:24:00.0"
#define EMPTY_SLOT "0000:25:00.0"
#define STATIC_NVME "0000:26:00.0"
#define OWN_NET "0000:00:03.0"
#define OWN_SHARE "0000:00:05.0"
#define VUID "MT2328XZ17DFVFSS1D0F0"

/* The writes that bind SHARE, followed by those of a wait that found its device, or failed. */
#define BOUND "driver_override virtio-pci; bind " SHARE
#define FOUND BOUND "; driver_override "
#define AND_BACK BOUND "; unbind " SHARE "; driver_override "

#define ROOT_LINE "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
#define OWN_LINE "30 21 0:25 / /srv/own rw,relatime shared:7 - virtiofs own rw\n"

struct share_tree {
	struct tree tree;
	struct kernel kernel;
	struct device_world world;
	struct device_want want; /* "share" of SHARE */
	struct device dev;
	struct str why;
	struct err err;
	char *proc;
	bool modern;
};

/*
 * The host; only the machine's own devices have drivers. `modern`: its kernel shows tags in
 * /sys/fs/virtiofs, including those of devices bound later.
 */
void share_tree_init(struct share_tree *s, bool modern);
/* Fails the test if a foreign function was touched. */
void share_tree_clear(struct share_tree *s);
DEFINE_AUTO_VALUE(struct share_tree, share_tree_clear);

/* An attribute of a function. */
void share_attr(struct share_tree *s, const char *pci, const char *name, const char *text);
/* A function without a config space: not a virtio-fs one. */
void share_add_function(struct share_tree *s, const char *pci, const char *vendor,
                        const char *device, const char *class_code);
void share_bind_to(struct share_tree *s, const char *pci, const char *driver);
/* mountinfo of a process: "self" or "1". */
void share_mounts(struct share_tree *s, const char *process, const char *lines);
/* The function has been bound at boot, as virtio<n>. 0 or EEXIST, as kernel_bind_virtio(). */
int share_bind(struct share_tree *s, const char *pci, unsigned n, const char *tag);
/* For kernel.on_bind: virtio7 with the tag "share". */
void share_on_bind(struct kernel *k, const char *pci);

int share_find(struct share_tree *s);
int share_wait_ms(struct share_tree *s, int ms);
void share_assert_writes(struct share_tree *s, const char *want);
/* rc is -1, and the error FAILED_PRECONDITION with these words. */
void share_assert_refused(struct share_tree *s, int rc, const char *what, const char *says);
