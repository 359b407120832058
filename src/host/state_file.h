/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state files of attached volumes: <state dir>/volumes/<volume>.json, one per volume. A file is
 * written before the first change to the host and removed after the detach. After a reboot it has
 * no effect.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "common/str.h"
#include "volume/volume_params.h"

/* Strings point into the tree or are borrowed from the caller; "" if not set. */
struct host_state {
	struct json *tree; /* the parsed file, if the state was read from one; otherwise NULL */
	const char *volume, *attachment, *uid, *node;
	/*
	 * The namespace of the attachment if `host watch` has attached it; "": a user has attached
	 * it.
	 */
	const char *watched;
	enum emulation kind;
	const char *published; /* the PCI address in the attachment */
	/* The device that was found; before that, pci is "". */
	const char *pci, *device, *uuid, *tag;
	int64_t nsid;
	const char *mount; /* "": attached as a device */
	const char *fs_type, *options;
	bool read_only;
	bool key_value; /* `device` is a character device, which is not staged */
	int64_t since;  /* seconds since 1970 */
};

void host_state_clear(struct host_state *a);
DEFINE_AUTO_VALUE(struct host_state, host_state_clear);

enum { HOST_STATE_NONE = 1 };
/*
 * Reads the state of this volume into *ret. Returns HOST_STATE_NONE if there is no file, or if it
 * is from a boot other than `boot`. UNAVAILABLE: it cannot be read; the message names the file.
 */
int host_state_read(const char *state_dir, const char *boot, const char *volume,
                    struct host_state *ret, struct err *err) MUST_CHECK;
int host_state_write(const char *state_dir, const char *boot, const struct host_state *a,
                     struct err *err) MUST_CHECK;
int host_state_remove(const char *state_dir, const char *volume, struct err *err) MUST_CHECK;
/* Returns the names of all volumes that have a file, sorted, including files of other boots. */
int host_state_list(const char *state_dir, struct strs *ret, struct err *err) MUST_CHECK;
