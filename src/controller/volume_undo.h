/* SPDX-License-Identifier: Apache-2.0 */
/* What CreateVolume does before it answers with an error that is final. */
#pragma once

#include "controller/await.h"

/*
 * *err is the error of CreateVolume of `name`, a->reason its reason. When its code is final,
 * deletes the DPUVolume that the call leaves, if it is ours, not attached, and no caller can have
 * got it. was_bound: it was bound when this call began, or before, so an earlier caller may have
 * got it. Returns -1 with the error to answer: the same one when it is open, is ALREADY_EXISTS, or
 * is true now; else ABORTED or UNAVAILABLE with the first reason in the text.
 */
int volume_undo(const struct controller *c, const char *name, bool was_bound, struct await *a,
                struct err *err) MUST_CHECK;
