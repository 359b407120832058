/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration with kubelet, in place of a node-driver-registrar beside the driver: a socket in
 * kubelet's folder plugins_registry that answers the plugin registration API v1.
 *
 * kubelet finds the socket when it appears, and again whenever kubelet starts; it asks who is
 * there, calls the driver's own socket (NodeGetInfo), and reports back. A refusal is an error in
 * the log; kubelet itself tries again.
 */
#pragma once

#include "common/err.h"

struct registration;

struct registration_options {
	const char *dir;      /* plugins_registry, as seen here; need not exist yet */
	const char *driver;   /* name: the socket is <dir>/<driver>-reg.sock */
	const char *endpoint; /* the socket of the driver, as kubelet sees it */
	int look_again_ms;    /* while the folder is missing; 0: 5 s. Tests make it short */
};

/*
 * Starts the thread that keeps the socket in place: it comes back when it is removed, and appears
 * when the folder does. Signals are blocked as in rpc_server_start(). The strings outlive it.
 * INVALID_ARGUMENT when the path is too long for a socket.
 */
int registration_start(const struct registration_options *options, struct registration **ret,
                       struct err *err) MUST_CHECK;
/* Removes the socket (kubelet then forgets the driver). NULL is fine; returns NULL. */
struct registration *registration_stop(struct registration *r);
