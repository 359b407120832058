/* SPDX-License-Identifier: Apache-2.0 */
/* What CreateVolume does before it answers with an error that is final. */
#pragma once

#include "controller/await.h"

/*
 * *err is why CreateVolume of `name` failed; was_bound: its DPUVolume was bound already when the
 * call began, so it may have been handed out. Returns -1 with the error to answer: the same when it
 * is not final, is ALREADY_EXISTS, or no unattached DPUVolume of ours that cannot have been handed
 * out is left (it was deleted and is gone); else ABORTED or UNAVAILABLE with the first reason in
 * the text.
 */
int volume_undo(const struct controller *c, const char *name, bool was_bound, struct await *a,
                struct err *err) MUST_CHECK;
