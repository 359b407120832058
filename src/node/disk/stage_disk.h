/* SPDX-License-Identifier: Apache-2.0 */
/* Stages a disk: its filesystem, or the disk itself as raw block. Private to stage.c; no state. */
#pragma once

#include "common/deadline.h"
#include "node/staged/staging.h"

/*
 * s->dev is the disk, which device_wait() has just found. 0: it is at the staging path as wanted,
 * and s->mounted says whether it was not before. When it fails, what was done is undone; what
 * device_wait() has changed is the caller's to undo.
 */
int stage_disk(struct staging *s, struct deadline d, struct err *err) MUST_CHECK;
