/* SPDX-License-Identifier: Apache-2.0 */
/* The controller of DPUVolume (step.h). */
#pragma once

#include "test/sim/dpf/state.h"

int64_t dpf_volume(struct dpf *d, struct object_version *v, struct json *o);
/* The object of that name was deleted: frees its resources. */
void dpf_volume_gone(struct dpf *d, const char *ns, const char *name);
