/* SPDX-License-Identifier: Apache-2.0 */
/* The controllers of DPUStorageVendor and DPUStoragePolicy (step.h). */
#pragma once

#include "test/sim/dpf/state.h"

int64_t dpf_vendor(struct dpf *d, struct object_version *v, struct json *o);
int64_t dpf_policy(struct dpf *d, struct object_version *v, struct json *o);
