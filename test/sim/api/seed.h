/* SPDX-License-Identifier: Apache-2.0 */
/* The first objects: namespaces, nodes, policies, and those of --seed-file. */
#pragma once

#include "common/err.h"
#include "test/sim/base/sim.h"

int seed_all(struct sim *sim, struct err *err) MUST_CHECK;
