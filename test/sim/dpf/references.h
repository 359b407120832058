/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The volume and node that each attachment names, so that the attachment is found when they change.
 * Only the controllers' thread calls.
 */
#pragma once

#include "test/sim/dpf/state.h"

struct reference {
	char *ns, *attachment, *volume, *node;
	struct reference *next; /* in its bucket */
};

/* Updates the table for attachment `v`, which exists or was deleted. */
void references_update(struct dpf *d, const struct object_version *v, bool exists);
void references_clear(struct dpf *d);
/* Iterates over all references: NULL gives the first, after the last NULL is returned. */
const struct reference *references_next(const struct dpf *d, const struct reference *r);
/* Whether any attachment names the volume. */
bool references_has_volume(const struct dpf *d, const char *ns, const char *volume);
