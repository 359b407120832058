/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of --http-endpoint: /healthz, /readyz and /metrics.
 *
 *   /healthz  200: the process answers on its own CSI socket. For a liveness probe.
 *   /readyz   200: the process can do its work. 503 lists the failed checks, one per line.
 *   /metrics  Prometheus' text format
 */
#pragma once

#include "common/err.h"
#include "common/str.h"

/* The results of the checks for /readyz, one line each: "[+]api ok", "[-]api: no answer ...". */
struct web_checks {
	struct str text;
	bool failed;
};
/* Adds the result of a check; `problem` NULL: the check passed. */
void web_check(struct web_checks *checks, const char *name, const char *problem);

struct web_options {
	const char *address; /* listen_address.h */
	const char *version, *mode;
	const char *node; /* the node's name; "": a controller */
	unsigned modes;   /* METRIC_CONTROLLER, METRIC_NODE */
	/*
	 * Each callback runs on its own thread, one call at a time. All except count() and more()
	 * may block for some seconds.
	 */
	int (*alive)(void *arg, struct err *err);
	void (*ready)(void *arg, struct web_checks *ret);
	/*
	 * Sets gauges whose values are already known, for each /metrics; never blocks. May be NULL.
	 */
	void (*count)(void *arg);
	/* Sets gauges whose values are read from the host, at most every 10 s. May be NULL. */
	void (*look)(void *arg);
	/* Appends further metrics to the rendered page; never blocks. May be NULL. */
	void (*more)(void *arg, struct str *page);
	void *arg;
};

struct web;
int web_start(const struct web_options *options, struct web **ret, struct err *err) MUST_CHECK;
/*
 * Stops the server. Returns NULL, or `w` if a read of host state hangs; the data of the options
 * must then stay valid. NULL is allowed.
 */
struct web *web_stop(struct web *w);
