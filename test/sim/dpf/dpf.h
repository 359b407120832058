/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPF's storage controllers and the DPUs behind them, in one thread that is woken by changes of
 * the objects.
 */
#pragma once

#include "common/json.h"
#include "test/sim/base/sim.h"

struct dpf;

/* Starts reconciling what is in the store. */
struct dpf *dpf_new(struct sim *sim);
/* Detaches what is attached; returns NULL. */
struct dpf *dpf_free(struct dpf *d);
/* Everything is looked at again (faults have changed). Any thread. */
void dpf_poke(struct dpf *d);
/* Grows the storage behind a volume, its devices and status...capacity. Any thread. */
int dpf_resize(struct dpf *d, const char *volume, uint64_t bytes, struct err *err) MUST_CHECK;
/* What is attached where; a new root. Any thread. */
struct json *dpf_state(struct dpf *d);
