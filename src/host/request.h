/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attach asks of the node: the attachment becomes a publish context as the controller makes
 * it, and that a stage. With --mount its staging path is the directory, without it raw block is
 * staged in the state directory. No state.
 */
#pragma once

#include "common/mem.h"
#include "host/args.h"
#include "host/attachment_file.h"
#include "node/stage/stage.h"

/* Borrows arguments and file. */
struct host_request {
	const struct host_args *a;
	const struct attachment_file *f;
	char *mount; /* the directory, links above it followed; "": as a device */
	char *staging;
	const char *options[1];
	struct arena arena;
	struct stage_request stage;
};

#define HOST_REQUEST_INIT              \
	{                              \
		.arena = ARENA_INIT(0) \
	}
/* Fills mount and staging. INVALID_ARGUMENT, FAILED_PRECONDITION: nothing can be mounted there. */
int host_request_paths(struct host_request *q, const struct host_args *a,
                       const struct attachment_file *f, struct err *err) MUST_CHECK;
/* Fills the rest, checked by the rules of the node's door. The attachment must be ready. */
int host_request_make(struct host_request *q, const struct node *n, struct err *err) MUST_CHECK;
void host_request_clear(struct host_request *q);
