/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: options -> the parts (life.c) -> HTTP -> wait for a signal -> the same in reverse.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "test/sim/base/options.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/life.h"
#include "test/sim/server/http_server.h"
#include "test/sim/server/kubeconfig.h"

static int write_port(const struct sim_options *o, unsigned port, struct err *err)
{
	char text[16];

	snprintf(text, sizeof(text), "%u\n", port);
	return file_replace(o->port_file, text, strlen(text), 0644, err);
}

static int announce(const struct sim *sim, const struct http_server *server, struct err *err)
{
	const struct sim_options *o = sim->options;
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

static int serve(const struct sim_options *o, const sigset_t *signals, struct err *err)
{
	struct http_server *server = NULL;
	struct sim sim;
	int signal_number = 0;
	int rc = sim_start(o, &sim, err);

	if (!rc)
		rc = http_server_new(&sim, &server, err);
	if (!rc)
		rc = announce(&sim, server, err);
	if (!rc)
		sigwait(signals, &signal_number);
	sim_stop(&sim);
	http_server_free(server);
	sim_end(&sim);
	return rc;
}

int main(int argc, char **argv)
{
	struct sim_options options;
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
