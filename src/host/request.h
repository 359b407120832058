/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts an attachment into a publish context like the controller's, and that into a stage
 * request. With --mount, the staging path is the directory; without it, the volume is staged as raw
 * block in the state directory. No state.
 */
#pragma once

#include "common/mem.h"
#include "host/args.h"
#include "host/attachment_file.h"
#include "node/stage/stage.h"

/* Borrows the arguments and the file. */
struct host_request {
	const struct host_args *a;
	const struct attachment_file *f;
	char *mount; /* the directory, with links in its parents resolved; "": attach as a device */
	char *staging;
	const char *options[2];
	struct arena arena;
	struct stage_request stage;
	struct passphrases *keys; /* of --key-file; NULL: not encrypted */
};

#define HOST_REQUEST_INIT              \
	{                              \
		.arena = ARENA_INIT(0) \
	}
/*
 * Sets mount and staging. INVALID_ARGUMENT, FAILED_PRECONDITION: the path cannot be a mount point.
 */
int host_request_paths(struct host_request *q, const struct host_args *a,
                       const struct attachment_file *f, struct err *err) MUST_CHECK;
/*
 * Sets the remaining fields, checked by the rules of the CSI node service. The attachment must be
 * ready.
 */
int host_request_make(struct host_request *q, const struct node *n, struct err *err) MUST_CHECK;
void host_request_clear(struct host_request *q);
