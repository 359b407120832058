/* SPDX-License-Identifier: Apache-2.0 */
/* What of an object of the API server may leave the cluster in a support case. Pure. */
#pragma once

#include "common/json.h"

/*
 * A copy without managedFields, without annotations and labels of others than the driver and
 * Kubernetes' storage, and without the values of parameters, contexts and what is named like a
 * secret; their names stay, with REDACTED as value. A new root.
 */
#define REDACTED "(removed)"
struct json *redact_object(const struct json *object);
