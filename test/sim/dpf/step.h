/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a controller. A reconcile function looks at one object, makes at most one step (one
 * write), and returns in how many milliseconds to look again, or RECONCILE_IDLE: the object is
 * looked at again when it, or what it waits for, changes.
 */
#pragma once

#include "test/sim/dpf/state.h"

#define RECONCILE_IDLE (-1)

/*
 * Stores `o` if it differs from v. When another writer was faster, nothing is stored; the event of
 * that write queues the object again.
 */
void step_put(struct dpf *d, struct object_version *v, struct json *o);
/* Ends a step: sets Ready from the conditions of these types, sets observedGeneration, stores. */
void step_finish(struct dpf *d, struct object_version *v, struct json *o, const char *const *types);
/* The same without setting Ready. */
void step_store(struct dpf *d, struct object_version *v, struct json *o);
/* Adds the finalizer, if it is missing, and stores. True: this was the step. */
bool step_claim(struct dpf *d, struct object_version *v, struct json *o, const char *finalizer);
/*
 * Milliseconds left of the `ms` that began with the first call for this object and stage; 0: they
 * are over.
 */
int64_t step_delay_left(struct dpf *d, const char *uid, const char *stage, unsigned ms);
/* Forgets the delays of the object with this uid, NULL: of all. */
void step_forget_delays(struct dpf *d, const char *uid);
