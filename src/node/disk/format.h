/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ensures that a device has a mountable filesystem, or returns an error. Only this file runs mkfs.
 */
#pragma once

#include <stdbool.h>

#include "common/secret.h"
#include "node/node.h"
#include "node/mount/fsprobe.h"

struct format_request {
	const char *volume_id;
	const struct device *dev;
	int fd;              /* open on the device for reading */
	const char *fs_type; /* "": accept a filesystem of any type; create an ext4 */
	const struct volume_params *params;
	bool read_only; /* if true, the device is never formatted */
	/* sequence number of the disk that fd is open on, unique per boot; 0: unknown */
	uint64_t diskseq;
	const char *attachment;    /* UID of the volume's attachment; "" or NULL: unknown */
	const char *format_option; /* as in struct stage_request */
	/*
	 * An encrypted volume (crypt.h): its passphrases. NULL: another volume. Its filesystem is
	 * in the container that `dev` has. raw: nothing is created in the container.
	 */
	const struct passphrases *keys;
	bool raw;
	bool reader;     /* the access mode only reads, so the container is opened read-only */
	bool many_nodes; /* several nodes may write, so only format_node creates the container */
	const char *format_node; /* as in struct stage_request */
};

/*
 * Formats the device if it has no filesystem and may be formatted. *ret describes the complete
 * filesystem that the device has now. FAILED_PRECONDITION: the device has a different filesystem,
 * or data without a signature; the message names the content and its offset. UNAVAILABLE: the
 * device cannot be read. The deadline ends the wait, not the mkfs, which keeps running as the
 * volume's job (job.h). The caller must have joined any earlier job of the volume.
 */
int format_ensure(struct node *n, const struct format_request *r, struct deadline d,
                  struct fsprobe *ret, struct err *err) MUST_CHECK;
/*
 * Like format_ensure() for an encrypted volume: creates a container if the device is blank, opens
 * it, and ensures that it has a filesystem, unless r->raw. *ret_mapping is the open container;
 * after a failure it is closed, except while the job still runs. FAILED_PRECONDITION also: the
 * device has plain data, or the container of another volume, or no passphrase opens it.
 */
int format_ensure_encrypted(struct node *n, const struct format_request *r, struct deadline d,
                            struct fsprobe *ret, struct device *ret_mapping, struct err *err)
	MUST_CHECK;
