/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --write-kubeconfig, which points at this server. */
#pragma once

#include "common/err.h"
#include "test/sim/base/options.h"

int kubeconfig_write(const struct sim_options *o, unsigned port, struct err *err) MUST_CHECK;
