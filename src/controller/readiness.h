/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a volume or an attachment is ready. The calls that wait and the commands that
 * report the unmet condition use the same rule. Pure functions. Each returns like an
 * await_readiness: 0, AWAIT_NOT_YET with `why` (may be NULL), or -1 if the object will never be
 * ready. *ret is set unless a member has the wrong type; *ret points into the object.
 */
#pragma once

#include "controller/await.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

int volume_readiness(const struct json *object, struct dpu_volume *ret, struct str *why,
                     struct err *err) MUST_CHECK;
/* `kind` is the function type of the attachment's volume. */
int attachment_readiness(const struct json *object, enum emulation kind, struct dpu_attachment *ret,
                         struct str *why, struct err *err) MUST_CHECK;
