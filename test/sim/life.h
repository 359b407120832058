/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends the parts of a snap-sim in their order: for the program and for tests. */
#pragma once

#include "common/err.h"
#include "test/sim/base/options.h"
#include "test/sim/base/sim.h"

/*
 * Makes the parts, seeds the objects and starts DPF. `options` must outlive *ret. To be ended with
 * sim_end() after a failure too.
 */
int sim_start(const struct sim_options *options, struct sim *ret, struct err *err) MUST_CHECK;
/* Ends what waits on behalf of a client or of DPF; nothing is freed. */
void sim_stop(struct sim *sim);
/* Stops and frees everything. No request may be under way. */
void sim_end(struct sim *sim);
