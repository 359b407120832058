/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CreateVolume's arguments as a plain struct, and the checks that need no request to the API
 * server.
 */
#pragma once

#include "common/kv.h"
#include "common/mem.h"
#include "volume/volume_cap.h"
#include "controller/controller.h"

#define DEFAULT_VOLUME_BYTES (INT64_C(1) << 30)

struct volume_request {
	const char *name;
	int64_t required, limit; /* bytes; 0: not specified */
	const struct volume_cap *caps;
	size_t n_caps;         /* at least 1 */
	struct kvs parameters; /* of the StorageClass, unchanged */
	/* The fields below are set by volume_request_check(). */
	const char *policy;
	struct volume_params params;
	struct kvs vendor_parameters; /* for spec.parameters */
	unsigned access_modes;        /* DPU_READ_WRITE_ONCE, ... */
};

/* Checks the policy, the driver's keys, the capabilities as a whole and the capacity range. */
int volume_request_check(const struct controller *c, struct volume_request *r, struct arena *arena,
                         struct err *err) MUST_CHECK;
enum access_type volume_request_type(const struct volume_request *r);
/* Returns the size in bytes to request from DPF. */
int64_t volume_request_bytes(const struct volume_request *r);
