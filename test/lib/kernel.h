/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates the kernel behind a recorded sysfs tree. It implements struct sysfs_writer: a write to
 * bind, unbind or driver_override is recorded and changes the tree as the kernel would, or fails if
 * the test requests it. The test adds and removes namespaces by calls. Thread-safe.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "node/device/sysfs.h"
#include "test/lib/tree.h"

struct kernel_fault {
	const char *attribute; /* "bind", "unbind", "driver_override" */
	int errnum;
	unsigned times; /* how many writes fail; 0: none */
	bool applied;   /* the write fails, but takes effect */
};

struct kernel {
	struct sysfs_writer writer;
	const struct tree *tree;
	pthread_mutex_t lock;
	struct strs writes; /* "bind 0000:01:00.1", in order; under lock */
	struct kernel_fault faults[4];
	unsigned bind_ms; /* how long a bind takes */
	/* Called after each successful bind, outside the lock; may be NULL. */
	void (*on_bind)(struct kernel *k, const char *pci);
};

void kernel_init(struct kernel *k, const struct tree *t);
void kernel_clear(struct kernel *k);
DEFINE_AUTO_VALUE(struct kernel, kernel_clear);
/* All writes so far, joined by "; ". malloc'ed. */
char *kernel_writes(struct kernel *k);

/*
 * A namespace as the kernel shows it with multipath: hidden path below the function's controller,
 * head in the subsystem.
 */
struct kernel_namespace {
	const char *function; /* directory of the function: "/sys/devices/..." */
	unsigned subsystem, controller, instance; /* nvme<subsystem>c<controller>n<instance> */
	uint32_t nsid;
	const char *uuid; /* NULL: no such attribute */
	uint64_t size;    /* bytes */
	const char *dev;  /* "259:7" */
	uint64_t diskseq; /* 0: no such attribute */
};
/* Adds the hidden path, then the head; each appears together with all its attributes. */
void kernel_add_namespace(const struct tree *t, const struct kernel_namespace *n);

/* The virtio device of a virtio-fs function, as virtio-pci creates it. */
struct kernel_share {
	const char *pci;
	unsigned n; /* virtio<n> */
	const char *tag;
	bool shown; /* this kernel (6.9 and later) shows tags in /sys/fs/virtiofs */
};
/* Adds the device, without a driver. A later bind through sysfs attaches it to virtiofs. */
void kernel_add_virtio(const struct tree *t, const struct kernel_share *s);
/*
 * Attaches it to the driver virtiofs. 0, or EEXIST and it stays without a driver: another device of
 * the driver has the tag.
 */
int kernel_bind_virtio(const struct tree *t, unsigned n);
/* Removes it and all links to it. */
void kernel_remove_virtio(const struct tree *t, unsigned n);
