/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CreateVolume and DeleteVolume, in plain structs. Idempotent; any thread, one per volume (the RPC
 * handler locks).
 */
#pragma once

#include "controller/request.h"

struct created_volume {
	const char *id;
	int64_t capacity; /* bytes */
	struct kvs context;
};

/*
 * Creates the volume, or finds the one that an earlier call with a compatible request created, and
 * waits until it is bound. `r` has passed volume_request_check(). *ret is in the arena. After a
 * final code, no DPUVolume of this name that belongs to the driver remains.
 */
int volume_create(const struct controller *c, const struct volume_request *r, struct deadline d,
                  struct arena *arena, struct created_volume *ret, struct err *err) MUST_CHECK;
/*
 * Deletes the volume and waits until it is deleted; succeeds if it does not exist.
 * FAILED_PRECONDITION if it is attached.
 */
int volume_delete(const struct controller *c, const char *id, struct deadline d, struct err *err)
	MUST_CHECK;
