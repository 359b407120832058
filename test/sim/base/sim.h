/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a running snap-sim, by which they find each other. life.c creates and ends them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log.h"

/* Logs the actions of DPF and the fabric, with --v=1. */
#define sim_log(...)                                    \
	do {                                            \
		if (log_verbosity() >= 1)               \
			log_msg(LOG_INFO, __VA_ARGS__); \
	} while (0)

/* The DPU cluster that each DPU joins and that gets each volume. */
#define DPU_CLUSTER "dpu-cplane-tenant1"

struct store;
struct faults;
struct counters;
struct dpf;
struct fabric;
struct mirror;
struct sim_options;

struct sim {
	const struct sim_options *options;
	struct store *store;
	struct faults *faults;
	struct counters *counters;
	struct dpf *dpf;       /* NULL: --no-dpf, an API server only */
	struct fabric *fabric; /* NULL: --no-fabric, no devices */
	struct mirror *mirror; /* NULL: the objects are the store's own, not another API server's */
	int stop_fd;           /* readable once snap-sim ends */
};
