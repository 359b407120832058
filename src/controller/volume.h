/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CreateVolume and DeleteVolume, in plain structs. Idempotent; any thread, one per volume (the wire
 * door locks).
 */
#pragma once

#include "controller/request.h"

struct created_volume {
	const char *id;
	int64_t capacity; /* bytes */
	struct kvs context;
};

/*
 * Makes the volume, or finds the one that an earlier call with a compatible request made, and waits
 * until it is bound. `r` has passed volume_request_check(). *ret is in the arena. A final code
 * leaves no DPUVolume of this name that is ours.
 */
int volume_create(const struct controller *c, const struct volume_request *r, struct deadline d,
                  struct arena *arena, struct created_volume *ret, struct err *err) MUST_CHECK;
/*
 * Deletes the volume and waits until it is gone; succeeds when it does not exist. Attached:
 * FAILED_PRECONDITION.
 */
int volume_delete(const struct controller *c, const char *id, struct deadline d, struct err *err)
	MUST_CHECK;
