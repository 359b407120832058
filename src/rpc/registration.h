/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers the driver with kubelet, so that no node-driver-registrar is needed: serves the plugin
 * registration API v1 on a socket in kubelet's directory plugins_registry.
 *
 * kubelet finds the socket when it appears, and again when kubelet starts. It calls GetInfo, then
 * NodeGetInfo on the driver's own socket, and reports the result. A refusal is logged as an error;
 * kubelet itself retries.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

struct registration;

struct registration_options {
	const char *dir;      /* plugins_registry, as the driver sees it; need not exist yet */
	const char *driver;   /* the driver's name; the socket is <dir>/<driver>-reg.sock */
	const char *endpoint; /* path of the driver's socket, as kubelet sees it */
	/*
	 * Called with true when kubelet has registered the driver, and with false at first and when
	 * the socket was removed. Runs on threads of the registration.
	 */
	void (*registered)(void *arg, bool registered);
	/*
	 * Called periodically while the socket is served. Returns true if the result of NodeGetInfo
	 * that kubelet has received is outdated, so that kubelet must call it again; the socket is
	 * then re-created. May block for some seconds. NULL: never outdated.
	 */
	bool (*outdated)(void *arg);
	void *arg;
	/* between checks of a directory that is not watched; 0: 5 s. For tests */
	int look_again_ms;
	int outdated_ms; /* between calls of outdated(); 0: 60 s. For tests */
};

/*
 * Starts the thread that serves the socket. The socket is created as soon as the directory exists,
 * and again after it was removed or replaced by a stale socket. A socket of a living process is not
 * replaced. Signals must be blocked as for rpc_server_start(). The strings must outlive the
 * registration. INVALID_ARGUMENT if the path is too long for a socket.
 */
int registration_start(const struct registration_options *options, struct registration **ret,
                       struct err *err) MUST_CHECK;
/*
 * Removes the socket (kubelet then forgets the driver) and ends the threads. NULL is allowed;
 * returns NULL.
 */
struct registration *registration_stop(struct registration *r);
