/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rules of the cluster's CRD of DPUVolumes. Pure functions. */
#pragma once

#include <stdbool.h>

#include "common/json.h"
#include "common/str.h"

/*
 * Returns true if the schema allows a change of spec.resources.requests.storage in a DPUVolume. If
 * not, `why` names the rule that forbids it: "spec.resources has the rule self == oldSelf".
 */
bool dpu_volume_may_grow(const struct json *schema, struct str *why);
