/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration with kubelet, in place of a node-driver-registrar beside the driver: a socket in
 * kubelet's folder plugins_registry that answers the plugin registration API v1.
 *
 * kubelet finds the socket when it appears, and again when kubelet starts. It calls GetInfo, then
 * NodeGetInfo on the driver's own socket, and reports the result. A refusal is an error in the log;
 * kubelet itself tries again.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

struct registration;

struct registration_options {
	const char *dir;      /* plugins_registry, as the driver sees it; need not exist yet */
	const char *driver;   /* its name; the socket is <dir>/<driver>-reg.sock */
	const char *endpoint; /* the socket of the driver, as kubelet sees it */
	/*
	 * Told whether kubelet has registered the driver: false at first and when the socket is
	 * gone. Called on threads of the registration.
	 */
	void (*registered)(void *arg, bool registered);
	/*
	 * Asked from time to time while the socket is served: is what kubelet was told by
	 * NodeGetInfo over, so that it has to ask again? The socket is then made anew. NULL: never.
	 * It may block for some seconds.
	 */
	bool (*outdated)(void *arg);
	void *arg;
	int look_again_ms; /* between looks for a missing folder; 0: 5 s. For tests */
	int outdated_ms;   /* between calls of outdated(); 0: 60 s. For tests */
};

/*
 * Starts the thread that serves the socket: as soon as the folder exists, and again when somebody
 * removes the socket or puts a dead one in its place. A living one there is left alone. Signals are
 * blocked as for rpc_server_start(). The strings outlive it. INVALID_ARGUMENT when the path is too
 * long for a socket.
 */
int registration_start(const struct registration_options *options, struct registration **ret,
                       struct err *err) MUST_CHECK;
/* Removes the socket (kubelet then forgets the driver). NULL is fine; returns NULL. */
struct registration *registration_stop(struct registration *r);
