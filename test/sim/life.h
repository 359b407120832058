/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends the parts of a snap-sim in their order: for the program and for tests. */
#pragma once

#include "common/err.h"
#include "test/sim/base/options.h"
#include "test/sim/base/sim.h"

/*
 * Creates the parts, creates the first objects, starts DPF. `options` must outlive *ret. Call
 * sim_end() even after an error.
 */
int sim_start(const struct sim_options *options, struct sim *ret, struct err *err) MUST_CHECK;
/* Wakes and ends all waits for a client or an event; frees nothing. */
void sim_stop(struct sim *sim);
/* Ends and frees everything. No request may be in flight. */
void sim_end(struct sim *sim);
