/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a volume or an attachment is ready: the one rule, for the calls that wait and for those who
 * ask why they do. Pure functions. Each returns as an await_judge: 0, AWAIT_NOT_YET with `why` (may
 * be NULL), or -1, it will never be. *ret is set unless a member has the wrong type; it points into
 * the object.
 */
#pragma once

#include "controller/await.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

int judge_volume(const struct json *object, struct dpu_volume *ret, struct str *why,
                 struct err *err) MUST_CHECK;
/* kind: of its volume. */
int judge_attachment(const struct json *object, enum emulation kind, struct dpu_attachment *ret,
                     struct str *why, struct err *err) MUST_CHECK;
