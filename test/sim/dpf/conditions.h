/* SPDX-License-Identifier: Apache-2.0 */
/* status.conditions with DPF's conventions (reasons, Ready as the sum of the others). */
#pragma once

#include "common/json.h"

#define REASON_SUCCESS "Success"
#define REASON_PENDING "Pending"
#define REASON_FAILURE "Failure"
#define REASON_DELETION "AwaitingDeletion"

/* types: NULL-terminated, Ready not among them. */
/* Makes the list when it is missing: all Unknown/Pending. True when it did. */
bool conditions_init(struct json *object, const char *const *types);
/* status is "True", "False" or "Unknown". lastTransitionTime moves only when the status changes. */
void conditions_set(struct json *object, const char *type, const char *status, const char *reason,
                    const char *message);
/*
 * Ready from the others: True/Success, or False with the worst reason and the list of what is
 * missing.
 */
void conditions_summarize(struct json *object, const char *const *types);
/* True and observed at the object's generation. */
bool conditions_true(const struct json *object, const char *type);
