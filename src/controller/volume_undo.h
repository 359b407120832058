/* SPDX-License-Identifier: Apache-2.0 */
/* What CreateVolume does before it answers with an error that is final. */
#pragma once

#include "controller/await.h"

/*
 * *err is why CreateVolume of `name` failed. Returns -1 with the error to answer: the same when it is not final, is
 * ALREADY_EXISTS, or no unattached, never usable DPUVolume of ours is left (it was deleted and is gone); else ABORTED
 * or UNAVAILABLE with the first reason in the text.
 */
int volume_undo(const struct controller *c, const char *name, struct await *a, struct err *err)
	MUST_CHECK;
