/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a running snap-sim, as they know each other. Made and ended by main.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct faults;
struct counters;
struct dpf;
struct fabric;
struct options;

struct sim {
	const struct options *options;
	struct store *store;
	struct faults *faults;
	struct counters *counters;
	struct dpf *dpf;       /* NULL: no DPF behaviour, an API server only */
	struct fabric *fabric; /* NULL: no devices */
	int stop_fd;           /* readable when the end has come */
};
