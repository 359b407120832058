/* SPDX-License-Identifier: Apache-2.0 */
/* status.conditions as DPF uses them: its reasons, and Ready as the sum of the others. */
#pragma once

#include "common/json.h"

#define REASON_SUCCESS "Success"
#define REASON_PENDING "Pending"
#define REASON_ERROR "Error"
#define REASON_FAILURE "Failure" /* defined by DPF, but not used by its storage controllers */
#define REASON_DELETION "AwaitingDeletion"

/* `types` ends with NULL and does not contain Ready. */
/* Adds Ready and those of the types that are missing, as Unknown and Pending. */
void conditions_ensure(struct json *object, const char *const *types);
/*
 * Sets one condition. status is "True", "False" or "Unknown"; lastTransitionTime changes only with
 * it.
 */
void conditions_set(struct json *object, const char *type, const char *status, const char *reason,
                    const char *message);
void conditions_remove(struct json *object, const char *type);
/*
 * Sets Ready from the others: True and Success, or False with the worst reason and the list of
 * conditions that are not True. A True of any generation counts; a condition of an older generation
 * that is not True is not listed.
 */
void conditions_summarize(struct json *object, const char *const *types);
/* The status of a condition, "" when it does not exist. Valid until it is set again. */
const char *conditions_status(const struct json *object, const char *type);
/* Whether the condition is True and its observedGeneration is the object's generation. */
bool conditions_true(const struct json *object, const char *type);
