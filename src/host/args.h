/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of "snap-csi-plugin host". */
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

/* Strings are borrowed from argv or constant; "" when not given. */
struct host_args {
	enum host_command command;
	bool help;
	const char *file; /* "-": standard input */
	const char *name; /* of the volume, of detach and resume */
	const char *mount, *fs_type, *options, *format;
	bool device, read_only, json;
	const char *kubeconfig, *node, *namespace, *config; /* of watch */
	/*
	 * Set by `host watch`, not by an option: the namespace of the attachments that it watches.
	 * "": a command in a shell.
	 */
	const char *watched;
	const char *output;
	int64_t timeout_ms;
	const char *state_dir, *sysfs, *dev, *proc;
	const char *snap_device_id, *virtiofs_type;
	struct strs vendors;
};

/*
 * argv[0] is skipped. --name=value, --name value; of an option that is given several times the last
 * one counts. INVALID_ARGUMENT: it cannot be read, or contradicts itself. host_args_clear()
 * afterwards, also after -1.
 */
int host_args_parse(struct host_args *a, int argc, char *const argv[], struct err *err) MUST_CHECK;
void host_args_clear(struct host_args *a);
/* Do --device, --mount and what belongs to them go together? INVALID_ARGUMENT names them. */
int host_args_check_way(const struct host_args *a, struct err *err) MUST_CHECK;
void host_args_print_help(FILE *out);
