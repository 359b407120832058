/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages a disk: mounts its filesystem, or binds the disk itself as raw block. Private to stage.c;
 * no state.
 */
#pragma once

#include "common/deadline.h"
#include "node/staged/staging.h"

/*
 * Stages s->dev, the disk that device_wait() has just returned. Returns 0 if the disk is at the
 * staging path as requested; s->mounted is true if this call has mounted it. On failure, this
 * function undoes its own changes, and the caller undoes those of device_wait().
 */
int stage_disk(struct staging *s, struct deadline d, struct err *err) MUST_CHECK;
