/* SPDX-License-Identifier: Apache-2.0 */
/* Status objects and replies, worded as the API server words them. */
#pragma once

#include "common/json.h"
#include "test/sim/kinds/invalid.h"
#include "test/sim/kinds/resource.h"

struct watch_stream;

struct reply {
	unsigned code;
	const char *type;            /* content type */
	char *body;                  /* malloc'ed */
	unsigned retry_after;        /* seconds; 0: no header */
	struct watch_stream *stream; /* instead of a body */
	bool cut;                    /* closes the connection in the middle of the body */
};

void reply_json(struct reply *r, unsigned code, const struct json *body);
void reply_text(struct reply *r, unsigned code, const char *text);
void reply_clear(struct reply *r);

/* The Status of a failure; reason NULL: the usual one for the code. A new root. */
struct json *status_failure(unsigned code, const char *reason, const char *message);
const char *status_reason(unsigned code);

/* Each fills the reply. name may be "". */
void reply_failure(struct reply *r, unsigned code, const char *reason, const char *fmt, ...)
	PRINTF_(4, 5);
void reply_not_found(struct reply *r, const struct api_resource *res, const char *name);
void reply_exists(struct reply *r, const struct api_resource *res, const char *name);
void reply_conflict(struct reply *r, const struct api_resource *res, const char *name,
                    const char *why);
void reply_invalid(struct reply *r, const struct api_resource *res, const char *name,
                   const struct invalid *causes);
void reply_deleted(struct reply *r, const struct api_resource *res, const char *name,
                   const char *uid);
/* 404 for a path that belongs to no API group. */
void reply_no_such_path(struct reply *r);
/* 404 for a path below /api/v1 that names no resource. */
void reply_no_such_resource(struct reply *r);
