/* SPDX-License-Identifier: Apache-2.0 */
/* Events (core/v1) that DPF records about its objects. */
#pragma once

#include "test/sim/dpf/state.h"

/*
 * Records an Event of the volume's claim in the DPU cluster, once for each text: `type` is "Normal"
 * or "Warning".
 */
void event_of_claim(struct dpf *d, const struct object_version *volume, const char *type,
                    const char *reason, const char *text);
