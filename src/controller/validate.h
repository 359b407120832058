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

/* volume_validate(): the volume is not as the request says. */
enum { VALIDATE_DIFFERS = 1 };

/*
 * 0: the volume has everything that the request names. VALIDATE_DIFFERS: it has not, and *ret_why
 * (in the arena) says what differs. -1: NOT_FOUND, or the volume could not be read.
 */
int volume_validate(const struct controller *c, const struct validate_request *r, struct deadline d,
                    struct arena *arena, const char **ret_why, struct err *err) MUST_CHECK;
