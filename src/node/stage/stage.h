/* SPDX-License-Identifier: Apache-2.0 */
/* NodeStageVolume and NodeUnstageVolume. */
#pragma once

#include "common/deadline.h"
#include "node/staged/staging.h"

/*
 * Stages a volume; stage.c describes the states. After an error with a final code (ARCHITECTURE.md,
 * "Life of an error"), no mount, no driver binding and no file remains.
 */
int node_stage(struct node *n, const struct stage_request *r, struct deadline d, struct err *err)
	MUST_CHECK;
/*
 * Unstages a volume. Returns 0 even if it is not staged. FAILED_PRECONDITION: the volume is
 * published or otherwise in use.
 */
int node_unstage(struct node *n, const char *volume_id, const char *staging_path, struct deadline d,
                 struct err *err) MUST_CHECK;
