/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node service (node/node.h) of one command. Its records lie in the state directory; no kubelet
 * is there, so the only directory that it may mount at is the command's own.
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
 * `kind`: of the volume; vfs: VFs may be made. `mount`: where it is, or will be, mounted; "":
 * nowhere. UNAVAILABLE: the boot is not known. host_node_end() afterwards, also after -1.
 */
int host_node_begin(struct host_node *h, const struct host_args *a, enum emulation kind, bool vfs,
                    const char *mount, struct err *err) MUST_CHECK;
/* Waits for a tool that still runs. */
void host_node_end(struct host_node *h);
/* The staging path: `mount`, or with "" (as a device) one in the state directory. malloc'ed. */
char *host_staging_path(const struct host_args *a, const char *mount);
/* /dev/snap-csi/VOLUME, malloc'ed. */
char *host_link_path(const struct host_args *a, const char *volume);
/* ALREADY_EXISTS: something is there that is no link, which nobody here has made. */
int host_link_check(const char *path, struct err *err) MUST_CHECK;
