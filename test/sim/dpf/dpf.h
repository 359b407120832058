/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPF's storage controllers and the DPUs behind them: one thread, woken by changes of the objects.
 */
#pragma once

#include "common/json.h"
#include "test/sim/base/sim.h"

struct dpf;

/* Starts the thread, which begins with the objects in the store. */
struct dpf *dpf_new(struct sim *sim);
/* Waits for the thread, which sim_stop() has ended, and detaches everything; returns NULL. */
struct dpf *dpf_free(struct dpf *d);
/* Checks every object again (faults have changed). Any thread. */
void dpf_poke(struct dpf *d);
/* Grows the storage of a volume, its devices, and then its status. Any thread. */
int dpf_resize(struct dpf *d, const char *volume, uint64_t bytes, struct err *err) MUST_CHECK;
/* All volumes and attachments, for /sim/state; a new root. Any thread. */
struct json *dpf_state(struct dpf *d);
