/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap-sim: options -> store, faults, fabric, DPF, HTTP -> wait for a signal -> the same backwards.
 * The only file that knows all parts.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "test/sim/base/counters.h"
#include "test/sim/dpf/dpf.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/base/faults.h"
#include "test/sim/server/http_server.h"
#include "test/sim/server/kubeconfig.h"
#include "test/sim/store/mirror.h"
#include "test/sim/base/options.h"
#include "test/sim/api/seed.h"
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

static int write_port(const struct options *o, unsigned port, struct err *err)
{
	char text[16];

	snprintf(text, sizeof(text), "%u\n", port);
	return file_replace(o->port_file, text, strlen(text), 0644, err);
}

static int announce(const struct sim *sim, const struct http_server *server, struct err *err)
{
	const struct options *o = sim->options;
	unsigned port = http_server_port(server);

	if (o->kubeconfig && kubeconfig_write(o, port, err))
		return err_wrap(err, "--write-kubeconfig");
	if (o->port_file && write_port(o, port, err))
		return err_wrap(err, "--port-file");
	printf("snap-sim serves http://%s:%u, namespace %s, %s%s\n", o->address, port, o->namespace,
	       sim->fabric ? "devices below " : "no devices",
	       sim->fabric ? fabric_path(sim->fabric) : "");
	fflush(stdout);
	return 0;
}

static int run(struct sim *sim, const sigset_t *signals, struct err *err)
{
	struct http_server *server = NULL;
	int rc, signal_number = 0;

	if (seed_all(sim, err))
		return -1;
	if (sim->options->api && mirror_new(sim, sim->options->api, &sim->mirror, err))
		return err_wrap(err, "--kubeconfig");
	if (!sim->options->no_dpf)
		sim->dpf = dpf_new(sim);
	faults_on_change(sim->faults, on_faults, sim);
	rc = http_server_new(sim, &server, err);
	if (!rc)
		rc = announce(sim, server, err);
	if (!rc)
		sigwait(signals, &signal_number);
	eventfd_write(sim->stop_fd, 1);
	http_server_free(server);
	mirror_stop(sim->mirror);
	dpf_free(sim->dpf);
	mirror_free(sim->mirror);
	return rc;
}

static int serve(const struct options *o, const sigset_t *signals, struct err *err)
{
	struct sim sim = { .options = o };
	int rc;

	sim.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (sim.stop_fd < 0)
		abort();
	sim.store = store_new(o->history);
	sim.faults = faults_new();
	sim.counters = counters_new();
	rc = o->no_fabric ? 0 : fabric_new(o, sim.faults, &sim.fabric, err);
	if (!rc)
		rc = run(&sim, signals, err);
	fabric_free(sim.fabric);
	counters_free(sim.counters);
	faults_free(sim.faults);
	store_free(sim.store);
	close(sim.stop_fd);
	return rc;
}

int main(int argc, char **argv)
{
	struct options options;
	enum options_end end;
	struct err err = ERR_INIT;
	sigset_t signals;
	int rc;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	rc = options_parse(argc, argv, &options, &end, &err);
	if (!rc && end == OPTIONS_GO) {
		log_setup((int)options.verbosity, false);
		rc = serve(&options, &signals, &err);
	}
	options_clear(&options);
	if (rc)
		fprintf(stderr, "snap-sim: %s\n", err.msg);
	return rc ? 1 : 0;
}
