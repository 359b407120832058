/* SPDX-License-Identifier: Apache-2.0 */
/* ValidateVolumeCapabilities in plain structs. */
#pragma once

#include "common/kv.h"
#include "common/mem.h"
#include "volume/volume_cap.h"
#include "controller/controller.h"

struct validate_request {
	const char *volume;
	const struct volume_cap *caps;
	size_t n_caps;
	struct kvs volume_context, parameters;
	size_t n_mutable_parameters;
};

/* Return value of volume_validate(): the volume differs from the request. */
enum { VALIDATE_DIFFERS = 1 };

/*
 * Returns 0 if the volume has all requested properties. Returns VALIDATE_DIFFERS if not; *ret_why
 * (in the arena) names the difference. Returns -1 with NOT_FOUND, or if the volume could not be
 * read.
 */
int volume_validate(const struct controller *c, const struct validate_request *r, struct deadline d,
                    struct arena *arena, const char **ret_why, struct err *err) MUST_CHECK;
