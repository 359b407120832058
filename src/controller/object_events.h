/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the cause of a failure in an object's Events, because DPF reports a vendor's answers in
 * Events, not in a condition. Sends a request; any thread.
 */
#pragma once

#include "common/str.h"
#include "controller/controller.h"

/*
 * Appends "; Event REASON: MESSAGE" of the newest Warning about the object. If there is no Warning,
 * or if the API server does not answer in time, appends state_hint(), and a note if the driver must
 * not list Events. Returns true if the Warning reports that storage or a quota is exhausted.
 */
bool object_events_describe(const struct controller *c, const struct json *object,
                            struct deadline d, struct str *out);
