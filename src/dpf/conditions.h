/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.conditions of a DPF object. A condition counts only when its observedGeneration is absent
 * or the object's generation: what was said about an older spec is no answer.
 */
#pragma once

#include <stdbool.h>

#include "common/json.h"
#include "common/str.h"

#define CONDITION_READY "Ready"
#define CONDITION_DPU_ATTACHED "DPUAttached"

/* Strings point into the object; "" when absent. */
struct condition {
	const char *type, *status, *reason, *message;
};

/* There is no such condition, or it counts and is True. */
bool condition_holds_or_absent(const struct json *object, const char *type);
/*
 * The first condition that counts and whose reason is Failure: it will not get better by waiting.
 * The summary (Ready) only when no other has it. False: none.
 */
bool condition_failure(const struct json *object, struct condition *ret);
/*
 * Appends every condition that is not True, "Scheduled=False (Pending: no vendor), Bound=Unknown
 * (Pending)", the summary Ready only when it is the only one; "no conditions yet" when there are
 * none at all. Nothing when all are True.
 */
void conditions_describe(const struct json *object, struct str *out);
/*
 * Appends what the object says about itself: ": " and, with "; " between, status.message where no
 * condition repeats it, `missing` (may be ""), the conditions. Nothing when there is nothing to
 * say.
 */
void state_describe(const struct json *object, const char *missing, struct str *out);
