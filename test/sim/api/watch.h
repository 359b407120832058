/* SPDX-License-Identifier: Apache-2.0 */
/* watch: a reply that lasts as long as the client has requested. */
#pragma once

#include <sys/types.h>

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

void api_watch(const struct api_call *call, const struct target *t, struct reply *ret);

/* Reads at most n bytes; blocks until there are some. 0: the end; -1: cut the connection. */
ssize_t watch_read(struct watch_stream *w, char *buf, size_t n);
void watch_free(struct watch_stream *w); /* NULL is fine */
