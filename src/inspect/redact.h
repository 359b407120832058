/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the parts of an API object that may leave the cluster in a support case. Pure. */
#pragma once

#include "common/json.h"

/*
 * Returns a copy without managedFields, and without annotations and labels other than the driver's
 * and those of Kubernetes' storage. In parameters, contexts, and members whose name suggests a
 * secret, the key is kept and the value is replaced by REDACTED. A new root.
 */
#define REDACTED "(removed)"
struct json *redact_object(const struct json *object);
