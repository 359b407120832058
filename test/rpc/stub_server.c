/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport as a separate program, for tests of process events: SIGTERM, SIGKILL, running out
 * of descriptors, an environment full of GRPC_*. Usage: stub_server SOCKET [GRACE_MS]. Prints
 * "ready" when it serves; answers SIGTERM with a graceful stop and exit code 0.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/str.h"
#include "test/lib/rpc_stub.h"

int main(int argc, char **argv)
{
	struct rpc_server_options options = { .path = argc > 1 ? argv[1] : "csi.sock",
		                              .socket_group = (gid_t)-1 };
	int grace_ms = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2000, signo;
	struct err err = ERR_INIT;
	struct rpc_server *server;
	struct stub stub;
	sigset_t signals;

	rpc_server_sanitize_environment();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	log_setup(5, false);
	stub_init(&stub);
	if (rpc_server_start(&options, stub.services, ARRAY_LEN(stub.services), &server, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return EXIT_FAILURE;
	}
	puts("ready");
	fflush(stdout);
	sigwait(&signals, &signo);
	rpc_server_stop(server, grace_ms);
	stub_clear(&stub);
	return EXIT_SUCCESS;
}
