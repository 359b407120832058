/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a controller. A reconcile function reads one object, makes at most one step, and
 * returns the milliseconds until its repetition, or RECONCILE_IDLE: the object is reconciled again
 * when it or an object that it waits for changes; or RECONCILE_ERROR: the same, and after a pause
 * that grows with each error.
 */
#pragma once

#include "test/sim/dpf/state.h"

#define RECONCILE_IDLE (-1)
#define RECONCILE_ERROR (-2)

/*
 * Ends a step: sets Ready from the conditions of these types, sets observedGeneration, stores the
 * differences from v. Like DPF, in up to three writes, each of which watchers see: the conditions;
 * metadata and spec; the rest of the status. When another writer was faster, the rest is not
 * stored; the event of that write queues the object again.
 */
void step_finish(struct dpf *d, struct object_version *v, struct json *o, const char *const *types);
/* The same without setting Ready. */
void step_store(struct dpf *d, struct object_version *v, struct json *o);
/* Adds the finalizer, if it is missing, and ends the step. True: this was the step. */
bool step_claim(struct dpf *d, struct object_version *v, struct json *o, const char *finalizer,
                const char *const *types);
/*
 * Milliseconds left of the `ms` that began with the first call for this object and stage; 0: they
 * are over.
 */
int64_t step_delay_left(struct dpf *d, const char *uid, const char *stage, unsigned ms);
/* Whether this is the first call for this object and stage. */
bool step_is_first(struct dpf *d, const char *uid, const char *stage);
/*
 * The pause after an error of the object: 5 ms, twice as long after each further one, at most
 * --dpf-back-off-ms.
 */
int64_t step_back_off(struct dpf *d, const char *uid);
/* Whether that pause lasts. */
bool step_backs_off(const struct dpf *d, const char *uid);
/* Ends the back-off: the object was reconciled without an error. */
void step_succeeded(struct dpf *d, const char *uid);
/* Waits until --dpf-rate permits a write. */
void step_wait_for_turn(struct dpf *d);
/* Forgets the delays of the object with this uid, NULL: of all. */
void step_forget_delays(struct dpf *d, const char *uid);
