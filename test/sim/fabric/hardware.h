/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts, their PCI functions and the disks on them, shared by the files of this module.
 * fabric->lock guards all of it.
 */
#pragma once

#include <pthread.h>

#include "test/sim/base/faults.h"
#include "test/sim/base/options.h"
#include "test/sim/fabric/daemon.h"
#include "test/sim/fabric/function.h"
#include "test/sim/fabric/loopdev.h"
#include "test/sim/fabric/state_dir.h"

#define BDF_LENGTH 12 /* "0000:26:00.1" */

/* A namespace that is attached to a function. */
struct disk {
	uint32_t nsid;
	char uuid[37];
	bool key_value;
	char *ns, *volume;
	uint64_t bytes;
	struct loopdev loop;
	unsigned head; /* Y of nvmeXnY */
	bool visible;  /* it is in the tree */
	bool lost;     /* its function was unplugged: loop may belong to another user */
	char name[32]; /* "nvme0n1", which is also its name in <dev> */
	char path[32]; /* "nvme0c1n1"; unused without multipath */
	struct disk *next;
};

/* A folder that is attached to a function as a virtio-fs device. */
struct virtiofs {
	char *ns, *volume;
	char tag[40];
	bool there;        /* virtioN exists: virtio-pci holds the function */
	bool taken;        /* the driver virtiofs holds virtioN, and daemon serves it */
	unsigned instance; /* N of virtioN */
	unsigned entry;    /* N of fs/virtiofs/N, when taken */
	struct daemon daemon;
};

struct function {
	struct host *host;
	enum function_kind kind;
	unsigned index;
	char bdf[16];
	char dir[112];      /* "devices/pci0000:00/0000:00:04.0/0000:26:00.1" */
	bool present;       /* on the PCI bus */
	bool bound;         /* to its driver: nvme or, with a folder, virtio-pci */
	unsigned instance;  /* X of the controller nvmeX, when bound */
	unsigned subsystem; /* instance of its NVMe subsystem, when bound */
	int watch;          /* inotify's watch of driver_override; -1: none */
	struct disk *disks;
	struct virtiofs *fs; /* NULL: an NVMe function */
};

/* The FIFOs of a driver; bind_fd is -1 while a fault refuses binds. */
struct driver_files {
	int bind_fd, unbind_fd;
};

struct host {
	struct fabric *fabric;
	char *name;
	char *root;                 /* "<state>/<node>" */
	struct function *functions; /* PF, then VFs, then hot-plug slots */
	size_t n;
	struct driver_files nvme, virtio;
	int probe_fd, virtiofs_fd; /* FIFOs: drivers_probe, and bind of the driver virtiofs */
	int numvfs_watch;
	struct host *next;
};

struct fabric {
	pthread_mutex_t lock;
	const struct sim_options *options;
	struct faults *faults;
	struct state_dir state;
	struct host *hosts;
	pthread_t thread;
	bool thread_runs;
	int inotify_fd, wake_fd;
	bool stop;
};

/* The driver for a function: "nvme" or "virtio-pci". */
const char *function_driver(const struct function *fn);
/* Whether the host's nvme driver runs with native multipath. */
bool host_is_multipath(const struct host *h);
/* Directories below sys of a bound function's NVMe subsystem and controller; malloc'ed. */
char *function_subsystem_dir(const struct function *fn);
char *function_controller_dir(const struct function *fn);
