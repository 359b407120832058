/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host of node_world.h with virtio-fs functions in slots of the DPU's switch. A function is
 * unbound until a driver is bound to it; then its folder is served as a share with its tag
 * (share.h). The program needs mount_helper_install() and mount_helper_remove() in SUITE_AROUND().
 */
#pragma once

#include "test/lib/node_world.h"
#include "test/lib/share.h"
#include "test/lib/tree.h"

#define SHARE_WORLD_DEVICES 3

struct share_device {
	char pci[16];
	char name[16]; /* "virtio1" */
	unsigned n;
	char tag[40];
	char *folder; /* the shared folder */
	struct share daemon;
	bool bound;
};

struct share_world {
	struct node_world node;
	char *proc;
	char *tags; /* a tag is mounted below this folder while its function has its driver */
	struct share_device devices[SHARE_WORLD_DEVICES];
	size_t n;
	bool unproven;    /* share_world_unprove() */
	struct tree tree; /* the host's sysfs */
	struct sysfs_writer writer;
};

/* One world at a time. */
void share_world_init(struct share_world *w);
void share_world_clear(struct share_world *w);
/* This host shows no tags, as an old kernel under lockdown. Before functions are added. */
void share_world_unprove(struct share_world *w);
/* Restarts the driver. */
void share_world_restart(struct share_world *w);
/* A new function without driver. */
struct share_device *share_world_add(struct share_world *w, const char *tag);
void share_world_bind(struct share_world *w, struct share_device *d);
void share_world_unbind(struct share_world *w, struct share_device *d);
/*
 * Removes the function from its slot, even while it is in use; and plugs it back in, without
 * driver.
 */
void share_world_unplug(struct share_world *w, struct share_device *d);
void share_world_plug(struct share_world *w, struct share_device *d);

struct stage_request share_stage_request(const struct share_world *w, const struct share_device *d,
                                         enum access_mode mode);
struct publish_request share_publish_request(const struct share_world *w, const char *target,
                                             enum access_mode mode);
