/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the flags mean to the node room: the one place that makes its options of them, for the
 * driver and for inspect, which asks the same code about the same host. No state.
 */
#pragma once

#include "flags/flags.h"
#include "node/options.h"

/* Of volumes that do not say themselves which kind they are. */
enum emulation settings_emulation(const struct flags *f);
/*
 * The options point into *f. The caller adds what no flag says: running, gate and topology_key.
 * Looks whether mounts have to propagate (propagation.h).
 */
struct node_options settings_node(const struct flags *f);
