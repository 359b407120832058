/* SPDX-License-Identifier: Apache-2.0 */
/* What the cluster's CRD of DPUVolumes allows. Pure functions. */
#pragma once

#include <stdbool.h>

#include "common/json.h"
#include "common/str.h"

/*
 * Does the schema let spec.resources.requests.storage of a DPUVolume change? False: `why` says what
 * forbids it, "spec.resources has the rule self == oldSelf".
 */
bool dpu_volume_may_grow(const struct json *schema, struct str *why);
