/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line of "snap-csi-plugin host". */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/str.h"

enum host_command {
	HOST_ATTACH = 1,
	HOST_DETACH = 2,
	HOST_LIST = 4,
	HOST_CHECK = 8,
	HOST_WATCH = 16,
	HOST_RESUME = 32,
};

/* Strings are borrowed from argv or constant; "" if the option is not given. */
struct host_args {
	enum host_command command;
	bool help;
	const char *file; /* "-": standard input */
	const char *name; /* detach and resume: name of the volume */
	const char *mount, *fs_type, *options, *format;
	const char *encryption, *key_file;
	bool device, read_only, json;
	const char *kubeconfig, *node, *namespace, *config; /* options of watch */
	/*
	 * Set by `host watch`, not by an option: the namespace of the attachments that it watches.
	 * "": the command was run by a user.
	 */
	const char *watched;
	const char *output;
	int64_t timeout_ms;
	const char *state_dir, *sysfs, *dev, *proc;
	const char *snap_device_id, *virtiofs_type;
	struct strs vendors;
};

/*
 * Parses the command line; skips argv[0]. Accepts --name=value and --name value; the last of
 * repeated options counts. INVALID_ARGUMENT: an option is invalid, or contradicts another one. Call
 * host_args_clear() afterwards, even after -1.
 */
int host_args_parse(struct host_args *a, int argc, char *const argv[], struct err *err) MUST_CHECK;
void host_args_clear(struct host_args *a);
/*
 * Checks that --device, --mount and their dependent options are consistent. INVALID_ARGUMENT: the
 * message names the inconsistent options.
 */
int host_args_check_way(const struct host_args *a, struct err *err) MUST_CHECK;
void host_args_print_help(FILE *out);
