/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that are there from the start: namespaces, nodes, policies. */
#pragma once

#include "test/sim/base/sim.h"
#include "common/err.h"

int seed_all(struct sim *sim, struct err *err) MUST_CHECK;
