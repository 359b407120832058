/* SPDX-License-Identifier: Apache-2.0 */
/* From an attachment's status to what the node is told. Pure. */
#pragma once

#include "dpf/dpu_attachment.h"
#include "common/kv.h"
#include "common/mem.h"
#include "common/str.h"

/*
 * Does status.dpu have all that the node needs to find the device? False: `why` names what is
 * missing.
 */
bool attachment_is_complete(const struct dpu_attachment *a, struct str *why);
/*
 * The publish context in the arena. capacity 0: not known, no key. The attachment must be complete.
 */
struct kvs publish_context(const struct dpu_attachment *a, int64_t capacity, struct arena *arena);
