/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a controller. A reconcile function looks at one object, does at most one step (one
 * write) and returns in how many milliseconds to look again, or RECONCILE_IDLE: the next change of
 * the object, or of what it waits for, brings it back.
 */
#pragma once

#include "test/sim/dpf/state.h"

#define RECONCILE_IDLE (-1)

/* Stores `o` if it differs from v. Somebody was faster: nothing, its event brings us back. */
void step_put(struct dpf *d, struct object_version *v, struct json *o);
/*
 * Ends a step: sums the conditions of these types up in Ready, sets observedGeneration, stores.
 */
void step_finish(struct dpf *d, struct object_version *v, struct json *o, const char *const *types);
/* Adds the finalizer and stores. True when that was this step. */
bool step_claim(struct dpf *d, struct object_version *v, struct json *o, const char *finalizer);
/*
 * Milliseconds until `ms` have passed since the first call for this stage of this object; 0: they
 * have.
 */
int64_t step_delay_left(struct dpf *d, const char *uid, const char *stage, unsigned ms);
/* Forgets the delays of an object; uid NULL: of all. */
void step_forget_delays(struct dpf *d, const char *uid);
