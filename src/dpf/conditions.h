/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.conditions of a DPF object. A condition counts only when its observedGeneration is absent
 * or equals the object's generation; otherwise it is about an older spec.
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
	const char *since; /* lastTransitionTime */
};

/* Lenient: of one element of status.conditions. */
struct condition condition_decode(const struct json *item);
/* There is no such condition, or it counts and is True. */
bool condition_holds_or_absent(const struct json *object, const char *type);
/* There is such a condition, and it counts and is True. */
bool condition_holds(const struct json *object, const char *type);
/*
 * Finds a condition that counts and has the reason Failure, which waiting does not heal: the first
 * one, but Ready, the summary, only when it is the only one. False: there is none.
 */
bool condition_failure(const struct json *object, struct condition *ret);
/*
 * The first condition that counts and is not True, or does not count; Ready, the summary, only when
 * it is the only one. False: there is none.
 */
bool condition_unmet(const struct json *object, struct condition *ret);
/*
 * Appends every condition that is not True, "Scheduled=False (Pending: no vendor), Bound=Unknown
 * (Pending)", the summary Ready only when it is the only one; "no conditions yet" when there are
 * none at all. Nothing when all are True.
 */
void conditions_describe(const struct json *object, struct str *out);
/*
 * Appends ": " and, separated by "; ", status.message unless a condition repeats it, `missing` (may
 * be ""), and conditions_describe(). Appends nothing when all of them are empty.
 */
void state_describe(const struct json *object, const char *missing, struct str *out);
