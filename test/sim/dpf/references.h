/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What attachments refer to, to find those that a change concerns. Only the controllers' thread
 * calls.
 */
#pragma once

#include "test/sim/dpf/state.h"

struct reference {
	char *ns, *attachment, *volume, *node;
	struct reference *next; /* in its bucket */
};

/* Keeps the table what the attachments say: `v` exists, or no longer does. */
void references_update(struct dpf *d, const struct object_version *v, bool exists);
void references_clear(struct dpf *d);
/* Every reference: after NULL the first, after the last NULL. */
const struct reference *references_next(const struct dpf *d, const struct reference *r);
/* Whether any attachment names the volume. */
bool references_has_volume(const struct dpf *d, const char *ns, const char *volume);
