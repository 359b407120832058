/* SPDX-License-Identifier: Apache-2.0 */
/* Knows all parts but the HTTP server, which main.c adds. */
#include "test/sim/life.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "test/sim/api/seed.h"
#include "test/sim/base/counters.h"
#include "test/sim/base/faults.h"
#include "test/sim/dpf/dpf.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/kinds/schema.h"
#include "test/sim/kinds/served.h"
#include "test/sim/store/mirror.h"
#include "test/sim/store/store.h"

static void on_faults(void *arg)
{
	struct sim *sim = arg;

	store_wake(sim->store);
	if (sim->fabric)
		fabric_poke(sim->fabric);
	if (sim->dpf)
		dpf_poke(sim->dpf);
}

int sim_start(const struct sim_options *options, struct sim *ret, struct err *err)
{
	*ret = (struct sim) { .options = options };
	ret->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ret->stop_fd < 0)
		abort();
	schema_let_volumes_grow(options->growing_volumes);
	if (served_set(&options->storage_versions, err))
		return err_wrap(err, "--storage-version");
	ret->store = store_new(options->history);
	ret->faults = faults_new();
	ret->counters = counters_new();
	if (!options->no_fabric && fabric_new(options, ret->faults, &ret->fabric, err))
		return -1;
	if (seed_all(ret, err))
		return -1;
	if (options->api && mirror_new(ret, options->api, &ret->mirror, err))
		return err_wrap(err, "--kubeconfig");
	if (!options->no_dpf)
		ret->dpf = dpf_new(ret);
	faults_on_change(ret->faults, on_faults, ret);
	return 0;
}

void sim_stop(struct sim *sim)
{
	eventfd_write(sim->stop_fd, 1);
}

void sim_end(struct sim *sim)
{
	sim_stop(sim);
	mirror_stop(sim->mirror);
	dpf_free(sim->dpf);
	mirror_free(sim->mirror);
	fabric_free(sim->fabric);
	counters_free(sim->counters);
	faults_free(sim->faults);
	store_free(sim->store);
	close(sim->stop_fd);
}
