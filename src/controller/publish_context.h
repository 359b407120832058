/* SPDX-License-Identifier: Apache-2.0 */
/* The publish context, which tells the node its device, from an attachment's status. Pure. */
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
/* In the arena. The attachment must be complete. capacity: bytes; 0: not known, no key. */
struct kvs publish_context(const struct dpu_attachment *a, int64_t capacity, struct arena *arena);
