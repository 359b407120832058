/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the publish context, which identifies the device to the node, from an attachment's
 * status.
 */
#pragma once

#include "dpf/dpu_attachment.h"
#include "common/kv.h"
#include "common/mem.h"
#include "common/str.h"
#include "volume/volume_params.h"

/*
 * Returns true if status.dpu has all fields that the node needs to find the device of a volume of
 * this kind. If not, `why` names the missing fields.
 */
bool attachment_is_complete(const struct dpu_attachment *a, enum emulation kind, struct str *why);
/*
 * Returns true if status.dpu was written by an earlier attach; `why` then says so. DPF writes the
 * conditions first, then status.dpu together with the message. When the DPU attaches again,
 * dpuAttached stays true throughout, and status.dpu is old until the message changes.
 */
bool attachment_is_stale(const struct json *object, const struct dpu_attachment *a,
                         struct str *why);
/*
 * Writes the publish context to *ret, in the arena. The attachment must be complete. Exactly one of
 * nv-nvmeNsID and nv-virtioFsTag is set, which determines the kind on the node. capacity: bytes; 0:
 * not known, the key is omitted. format_node: NULL: the key is omitted. Logs when metadata are omitted
 * because they are too long.
 * UNAVAILABLE as for publish_context_write().
 */
int attachment_publish_context(const struct dpu_attachment *a, enum emulation kind,
                               int64_t capacity, const char *format_node, struct arena *arena,
                               struct kvs *ret, struct err *err) MUST_CHECK;
