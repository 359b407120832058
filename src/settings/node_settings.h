/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts flags to the options of the node module. Used by the driver and by inspect, which runs
 * the same code on the same host. Stateless.
 */
#pragma once

#include "flags/flags.h"
#include "node/options.h"

/* Returns the default kind of volumes that do not specify their kind. */
enum emulation settings_emulation(const struct flags *f);
/*
 * Returns the options, which point into *f. The caller adds the fields that no flag sets: running,
 * gate and topology_key. Checks whether mounts have to propagate (propagation.h).
 */
struct node_options settings_node(const struct flags *f);
