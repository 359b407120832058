/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a volume or an attachment is ready: one rule for the calls that wait and for the commands
 * that report why they wait. Pure functions. Each returns what an await_readiness does: 0,
 * AWAIT_NOT_YET with `why` (may be NULL), or -1, it will never be. *ret is set unless a member has
 * the wrong type; it points into the object.
 */
#pragma once

#include "controller/await.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

int volume_readiness(const struct json *object, struct dpu_volume *ret, struct str *why,
                     struct err *err) MUST_CHECK;
/* kind: of its volume. */
int attachment_readiness(const struct json *object, enum emulation kind, struct dpu_attachment *ret,
                         struct str *why, struct err *err) MUST_CHECK;
