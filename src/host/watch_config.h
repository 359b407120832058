/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file of `host watch`: how each volume is made available. The keys of an entry
 * are the options of `host attach`, and are checked as those are.
 *
 *     default: {below: /srv/volumes, fstype: ext4, format: blank}
 *     volumes:
 *       data-1: {mount: /srv/data, options: noatime}
 *       raw-1: {device: true}
 *       other: {ignore: true}
 */
#pragma once

#include "common/cleanup.h"
#include "host/args.h"

#define WATCH_CONFIG_FILE "/etc/snap-csi/host.yaml"

struct watch_way;
struct watch_config {
	struct json *tree; /* the texts of all ways point into it */
	struct watch_way *volumes, *otherwise;
	size_t n;
};

#define WATCH_CONFIG_INIT    \
	{                    \
		.tree = NULL \
	}
/*
 * *ret is empty, or what watch_config_clear() has left. INVALID_ARGUMENT with the line: an unknown
 * key, a value that is none, two volumes at one mount point.
 */
int watch_config_parse(const char *what, const char *text, size_t n, struct watch_config *ret,
                       struct err *err) MUST_CHECK;
/*
 * The same from the file; "": from WATCH_CONFIG_FILE, and where there is none every volume becomes
 * a device.
 */
int watch_config_read(const char *path, struct watch_config *ret, struct err *err) MUST_CHECK;
void watch_config_clear(struct watch_config *c);
DEFINE_AUTO_VALUE(struct watch_config, watch_config_clear);

enum { WATCH_IGNORED = 1 };
/*
 * The arguments of an attach of this volume: `base` with what the file says. The mount point, which
 * may be made of the volume's name, is *ret_mount, malloc'ed. WATCH_IGNORED: it is not to be
 * attached.
 */
int watch_config_way(const struct watch_config *c, const char *volume, const struct host_args *base,
                     struct host_args *ret, char **ret_mount);
