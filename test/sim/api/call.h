/* SPDX-License-Identifier: Apache-2.0 */
/* One request, and the resource that its path names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/str.h"
#include "test/sim/base/sim.h"
#include "test/sim/kinds/resource.h"

struct api_call {
	struct sim *sim;
	const char *method, *path; /* decoded; path is without the query */
	const char *content_type, *authorization;
	const struct strs *query; /* "key=value", decoded */
	const char *body;
	size_t body_len;
	int client_fd; /* watched, to detect that the client has left; -1: none */
};

struct target {
	const struct api_resource *res;
	const char *version;   /* from the path; the version in `res` is that of stored objects */
	char *ns, *name, *sub; /* NULL: not in the path; sub is "status" */
};

/* The value of a query parameter, or NULL. */
const char *call_query(const struct api_call *call, const char *key);
bool call_flag(const struct api_call *call, const char *key);

enum wait_end { WAIT_READY, WAIT_TIMEOUT, WAIT_GONE };
/*
 * Waits until fd (-1: none) is readable, ms (-1: no limit) have passed, or the client or snap-sim
 * ends.
 */
enum wait_end call_wait(const struct api_call *call, int fd, int ms);
