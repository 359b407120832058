/* SPDX-License-Identifier: Apache-2.0 */
/* The publish context, which tells the node its device, from an attachment's status. Pure. */
#pragma once

#include "dpf/dpu_attachment.h"
#include "common/kv.h"
#include "common/mem.h"
#include "common/str.h"
#include "volume/volume_params.h"

/*
 * Does status.dpu have all that the node needs to find the device of a volume of this kind? False:
 * `why` names what is missing.
 */
bool attachment_is_complete(const struct dpu_attachment *a, enum emulation kind, struct str *why);
/*
 * In the arena. The attachment must be complete. Exactly one of nv-nvmeNsID and nv-virtioFsTag is
 * there: it tells the node the kind. capacity: bytes; 0: not known, no key.
 */
struct kvs attachment_publish_context(const struct dpu_attachment *a, enum emulation kind,
                                      int64_t capacity, struct arena *arena);
