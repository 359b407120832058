/* SPDX-License-Identifier: Apache-2.0 */
/* status.conditions as DPF uses them: its reasons, and Ready as the sum of the others. */
#pragma once

#include "common/json.h"

#define REASON_SUCCESS "Success"
#define REASON_PENDING "Pending"
#define REASON_FAILURE "Failure"
#define REASON_DELETION "AwaitingDeletion"

/* `types` ends with NULL and does not contain Ready. */
/* Makes the list, all Unknown and Pending, when it is missing. True: it was. */
bool conditions_init(struct json *object, const char *const *types);
/*
 * Sets one condition. status is "True", "False" or "Unknown"; lastTransitionTime changes only with
 * it.
 */
void conditions_set(struct json *object, const char *type, const char *status, const char *reason,
                    const char *message);
void conditions_remove(struct json *object, const char *type);
/*
 * Sets Ready from the others: True and Success, or False with the worst reason and the list of what
 * is not True.
 */
void conditions_summarize(struct json *object, const char *const *types);
/* Whether the condition is True and its observedGeneration is the object's generation. */
bool conditions_true(const struct json *object, const char *type);
