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

/*
 * 0: all that was asked is true of the volume; 1: it is not, and *ret_why (in the arena) says what
 * is not; -1: NOT_FOUND, or it could not be learnt.
 */
int volume_validate(const struct controller *c, const struct validate_request *r, struct deadline d,
                    struct arena *arena, const char **ret_why, struct err *err) MUST_CHECK;
