/* SPDX-License-Identifier: Apache-2.0 */
/* The controller of DPUVolumeAttachment (step.h). */
#pragma once

#include "test/sim/dpf/state.h"

int64_t dpf_attachment(struct dpf *d, struct object_version *v, struct json *o);
/* The object of that name was deleted: frees its resources. */
void dpf_attachment_gone(struct dpf *d, const char *ns, const char *name);
