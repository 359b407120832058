/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node service (node/node.h) as used by one command. Its records are in the state directory.
 * The host has no kubelet, so the only permitted mount directory is the command's own.
 */
#pragma once

#include "host/args.h"
#include "node/service.h"

struct host_node {
	struct node node;
	struct strs dirs;
	char boot[BOOT_ID_SIZE];
};

/*
 * Creates the node. `kind`: kind of the volume. vfs: VFs may be created. `mount`: the mount point,
 * before or after the mount; "": none. UNAVAILABLE: the boot ID is unknown. Call host_node_end()
 * afterwards, even after -1.
 */
int host_node_begin(struct host_node *h, const struct host_args *a, enum emulation kind, bool vfs,
                    const char *mount, struct err *err) MUST_CHECK;
/* Frees the node; first waits for a tool that is still running. */
void host_node_end(struct host_node *h);
/*
 * Returns the staging path, malloc'ed: `mount` or, if that is "" (attached as a device), a path in
 * the state directory.
 */
char *host_staging_path(const struct host_args *a, const char *mount);
/* Returns /dev/snap-csi/VOLUME, malloc'ed. */
char *host_link_path(const struct host_args *a, const char *volume);
/*
 * Checks the path of a link. ALREADY_EXISTS: the path exists and is not a symbolic link, so this
 * program has not created it.
 */
int host_link_check(const char *path, struct err *err) MUST_CHECK;
