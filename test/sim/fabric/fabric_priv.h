/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between fabric.c (what is attached), fabric_tree.c (how it looks) and fabric_host.c (what the
 * host does to it). Everything below is under fabric->lock.
 */
#pragma once

#include <pthread.h>

#include "test/sim/fabric/fabric.h"
#include "test/sim/fabric/loopdev.h"
#include "test/sim/fabric/state_dir.h"
#include "test/sim/fabric/devtree.h"

#define BDF_LENGTH 12 /* "0000:26:00.1" */

/* A namespace on a function. */
struct disk {
	uint32_t nsid;
	char uuid[37];
	char *ns, *volume;
	uint64_t bytes;
	struct loopdev loop;
	unsigned head; /* Y of nvmeXnY */
	bool visible;  /* in the tree */
	char name[32]; /* "nvme0n1": what there is below <dev> */
	char path[32]; /* "nvme0c1n1" with multipath, else the name again */
	struct disk *next;
};

struct function {
	struct host *host;
	enum function_kind kind;
	unsigned index;
	char bdf[16];
	char dir[96];       /* "devices/pci0000:00/0000:00:04.0/0000:26:00.1" */
	bool present;       /* on the PCI bus */
	bool bound;         /* to the nvme driver */
	unsigned instance;  /* X of the controller nvmeX, when bound */
	unsigned subsystem; /* instance of its NVMe subsystem, when bound */
	int watch;          /* inotify's, of driver_override; -1: none */
	struct disk *disks;
};

struct host {
	struct fabric *fabric;
	char *name;
	char *root;                 /* "<state>/<node>" */
	struct function *functions; /* PF, then VFs, then hot-plug slots */
	size_t n;
	int bind_fd, unbind_fd, probe_fd; /* FIFOs; -1 while a fault refuses */
	int numvfs_watch;
	struct host *next;
};

struct fabric {
	pthread_mutex_t lock;
	const struct options *options;
	struct faults *faults;
	struct state_dir state;
	struct host *hosts;
	pthread_t thread;
	bool thread_runs;
	int inotify_fd, wake_fd;
	bool stop;
};

/* fabric_tree.c */
int host_build(struct host *h, struct err *err) MUST_CHECK; /* everything but VFs */
int function_appear(struct function *fn, struct err *err) MUST_CHECK;
void function_vanish(struct function *fn);
int function_bind(struct function *fn, struct err *err) MUST_CHECK;
void function_unbind(struct function *fn);
int disk_appear(struct function *fn, struct disk *k, struct err *err) MUST_CHECK;
void disk_vanish(struct function *fn, struct disk *k);
int disk_resized(struct function *fn, struct disk *k, struct err *err) MUST_CHECK;
bool host_autoprobe(const struct host *h);
/* The driver_override of a function, "" when there is none; malloc'ed. */
char *function_override(const struct function *fn);
void function_normalize_override(const struct function *fn);

/* fabric_host.c */
int host_listen(struct host *h, struct err *err) MUST_CHECK; /* FIFOs and watches of the tree */
void host_watch_function(struct function *fn);
int fabric_start_thread(struct fabric *f, struct err *err) MUST_CHECK;
void fabric_stop_thread(struct fabric *f);
