/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.conditions of a DPF object. A condition is current if its observedGeneration is absent or
 * equals the object's generation; otherwise it is about an older spec.
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

/* Decodes one element of status.conditions, leniently. */
struct condition condition_decode(const struct json *item);
/* Returns true if the condition is absent, or is current and True. */
bool condition_holds_or_absent(const struct json *object, const char *type);
/* Returns true if the condition is present, current and True. */
bool condition_holds(const struct json *object, const char *type);
/*
 * Reasons of conditions that report a fault and are not True. Failure is permanent. DPF defines it,
 * but its storage controllers do not write it: they write Error, and retry.
 */
#define REASON_FAILURE "Failure"
#define REASON_ERROR "Error"
/*
 * Finds the first condition with this reason that is current and not True; the summary Ready only
 * if there is no other. Returns false if no condition is found.
 */
bool condition_reason(const struct json *object, const char *reason, struct condition *ret);
/* Appends a message from DPF as one line, cut to 300 bytes, without the ":" of a missing cause. */
void message_add_line(struct str *out, const char *text);
/*
 * Finds the first condition that is not True or not current; the summary Ready only if there is no
 * other. Returns false if all conditions are current and True.
 */
bool condition_unmet(const struct json *object, struct condition *ret);
/*
 * Appends every condition that is not True, "Scheduled=False (Pending: no vendor), Bound=Unknown
 * (Pending)"; the summary Ready only if there is no other. Appends "no conditions yet" if the
 * object has no conditions, and nothing if all are True. For an object that is being deleted,
 * appends only current conditions, because a DELETE raises the generation.
 */
void conditions_describe(const struct json *object, struct str *out);
/*
 * Appends ": " and, separated by "; ", status.message unless a condition repeats it, `missing` (may
 * be ""), and the result of conditions_describe(). Appends nothing if all of them are empty.
 */
void state_describe(const struct json *object, const char *missing, struct str *out);
/*
 * Returns the component of DPF that may not be running, if DPF has not begun or gives no reason;
 * otherwise "".
 */
const char *state_hint(const struct json *object);
