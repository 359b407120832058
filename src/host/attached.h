/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of what is attached: <state dir>/volumes/<volume>.json, one file each. One is there from
 * before the first change until the volume is detached. It means nothing after a reboot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "common/str.h"
#include "volume/volume_params.h"

/* Strings point into the tree, or are the caller's; "" when there is none. */
struct attached {
	struct json *tree; /* of one that was read; NULL */
	const char *volume, *attachment, *uid, *node;
	/* The namespace of the attachment, when `host watch` has attached it; "": by hand. */
	const char *watched;
	enum emulation kind;
	const char *published; /* its PCI address as the attachment has it */
	/* The device as it was found; pci "" before that. */
	const char *pci, *device, *uuid, *tag;
	int64_t nsid;
	const char *mount; /* "": as a device */
	const char *fs_type, *options;
	bool read_only;
	int64_t since; /* seconds since 1970 */
};

void attached_clear(struct attached *a);
DEFINE_AUTO_VALUE(struct attached, attached_clear);

enum { ATTACHED_NOT = 1 };
/*
 * 0: *ret is the record of this volume. ATTACHED_NOT: there is none, or it is of another boot than
 * `boot`. UNAVAILABLE: it cannot be read; the text names the file.
 */
int attached_read(const char *state_dir, const char *boot, const char *volume, struct attached *ret,
                  struct err *err) MUST_CHECK;
int attached_write(const char *state_dir, const char *boot, const struct attached *a,
                   struct err *err) MUST_CHECK;
int attached_remove(const char *state_dir, const char *volume, struct err *err) MUST_CHECK;
/* The names of all volumes with a record, sorted; also those of other boots. */
int attached_names(const char *state_dir, struct strs *ret, struct err *err) MUST_CHECK;
