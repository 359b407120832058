/* SPDX-License-Identifier: Apache-2.0 */
/* NodeStageVolume and NodeUnstageVolume. */
#pragma once

#include "common/deadline.h"
#include "node/staged/staging.h"

/*
 * After a final code (ARCHITECTURE.md, "Life of an error") no mount, no driver binding and no file
 * is left behind; stage.c explains the states.
 */
int node_stage(struct node *n, const struct stage_request *r, struct deadline d, struct err *err)
	MUST_CHECK;
/* 0 also when nothing is staged. FAILED_PRECONDITION: it is published or otherwise in use. */
int node_unstage(struct node *n, const char *volume_id, const char *staging_path, struct deadline d,
                 struct err *err) MUST_CHECK;
