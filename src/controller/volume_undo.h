/* SPDX-License-Identifier: Apache-2.0 */
/* The undo step of CreateVolume, before it answers with a final error. */
#pragma once

#include <stdlib.h>

#include "controller/await.h"

/* The object that a call of CreateVolume leaves behind. */
struct creation {
	/*
	 * The object was bound before or when this call began, so an earlier caller may have its
	 * id.
	 */
	bool was_bound;
	/*
	 * The uid of an object that does not fit its own request, so that it is returned to no
	 * caller; or NULL. Owned.
	 */
	char *unfit;
};
static inline void creation_clear(struct creation *cr)
{
	free(cr->unfit);
}
DEFINE_AUTO_VALUE(struct creation, creation_clear);

/*
 * On entry *err is the error of CreateVolume for `name`, and a->reason its reason. If its code is
 * final, deletes the DPUVolume that the call leaves behind, provided that this driver created the
 * volume, the volume is not attached, and no caller can have its id. Returns -1 with the error to
 * answer. That error is unchanged if its code is ALREADY_EXISTS or not final, or if the undo has
 * made it true; otherwise it is ABORTED or UNAVAILABLE, with the first reason in the message.
 */
int volume_undo(const struct controller *c, const char *name, const struct creation *cr,
                struct await *a, struct err *err) MUST_CHECK;
