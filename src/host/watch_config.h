/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file of `host watch`: specifies how each volume is attached. The keys of an
 * entry are the options of `host attach`, and are checked like these options.
 *
 *     default: {below: /srv/volumes, fstype: ext4, format: blank}
 *     volumes:
 *       data-1: {mount: /srv/data, options: noatime}
 *       secret-1: {mount: /srv/secret, encryption: luks2, key-file: /etc/snap-csi/secret-1.key}
 *       raw-1: {device: true}
 *       other: {ignore: true}
 */
#pragma once

#include "common/cleanup.h"
#include "host/args.h"

#define WATCH_CONFIG_FILE "/etc/snap-csi/host.yaml"

struct watch_way;
struct watch_config {
	struct json *tree; /* owns the strings of all entries */
	struct watch_way *volumes, *otherwise;
	size_t n;
};

#define WATCH_CONFIG_INIT    \
	{                    \
		.tree = NULL \
	}
/*
 * Parses the text. *ret must be empty or cleared by watch_config_clear(). INVALID_ARGUMENT: an
 * unknown key, an invalid value, or two volumes at one mount point; the message has the line.
 */
int watch_config_parse(const char *what, const char *text, size_t n, struct watch_config *ret,
                       struct err *err) MUST_CHECK;
/*
 * Like watch_config_parse(), for the file at `path`; "": the file WATCH_CONFIG_FILE. If that file
 * does not exist, every volume is attached as a device.
 */
int watch_config_read(const char *path, struct watch_config *ret, struct err *err) MUST_CHECK;
void watch_config_clear(struct watch_config *c);
DEFINE_AUTO_VALUE(struct watch_config, watch_config_clear);

enum { WATCH_IGNORED = 1 };
/*
 * Returns the arguments for attaching this volume: `base`, overridden by the file. *ret_mount,
 * malloc'ed, is the mount point, which may contain the volume's name. Returns WATCH_IGNORED if the
 * volume must not be attached.
 */
int watch_config_way(const struct watch_config *c, const char *volume, const struct host_args *base,
                     struct host_args *ret, char **ret_mount);
