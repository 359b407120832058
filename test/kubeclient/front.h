/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers between the client and the scripted server in these tests: certificates, and nghttpx,
 * which terminates TLS and HTTP/2. Also a server in Go, with the HTTP/2 implementation of an API
 * server.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* A shell command in a process group of its own; its output is dropped. */
pid_t start_process(const char *command);
void shell(const char *command); /* must succeed */
/* Creates <dir>/<name>.pem and .key: a self-signed CA. */
void certificate_authority(const char *dir, const char *name);
/* Creates <dir>/<name>.pem and .key, signed by <dir>/<ca>; subject_alt_name: "IP:127.0.0.1". */
void certificate(const char *dir, const char *ca, const char *name, const char *subject_alt_name);

struct front {
	pid_t pid;
	int port;
};

/*
 * Starts nghttpx with <dir>/<cert> in front of a server on backend_port, and waits until it accepts
 * connections. port 0: a free one. options: appended to its command line.
 */
struct front front_start(const char *dir, const char *cert, int port, int backend_port,
                         const char *options);
/* The same for test/kubeclient/peer, which answers on its own. Its path is in $H2_PEER. */
struct front peer_start(const char *dir, const char *cert);
void front_stop(struct front *f); /* at once; waits for the process */
int free_port(void);
