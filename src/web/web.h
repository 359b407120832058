/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --http-endpoint serves: /healthz, /readyz and /metrics.
 *
 *   /healthz  200: the process answers its own CSI socket. For a liveness probe.
 *   /readyz   200: it can do its work. 503 says what is missing, a line for each check.
 *   /metrics  Prometheus' text format
 */
#pragma once

#include "common/err.h"
#include "common/str.h"

/* What is looked at for /readyz, one line for each check: "[+]api ok", "[-]api: no answer ...". */
struct web_checks {
	struct str text;
	bool failed;
};
/* problem NULL: it is well. */
void web_check(struct web_checks *checks, const char *name, const char *problem);

struct web_options {
	const char *address; /* listen_address.h */
	const char *version, *mode;
	unsigned modes; /* METRIC_CONTROLLER, METRIC_NODE */
	/*
	 * They run on threads of their own, each one at a time. All but count() and more() may
	 * block for some seconds.
	 */
	int (*alive)(void *arg, struct err *err);
	void (*ready)(void *arg, struct web_checks *ret);
	/* Sets gauges that are known already, for each /metrics; never blocks. May be NULL. */
	void (*count)(void *arg);
	/* Sets gauges for which the host has to be asked; at most every 10 s. May be NULL. */
	void (*look)(void *arg);
	/* Adds further metrics to the page, already printed; never blocks. May be NULL. */
	void (*more)(void *arg, struct str *page);
	void *arg;
};

struct web;
int web_start(const struct web_options *options, struct web **ret, struct err *err) MUST_CHECK;
/*
 * Returns NULL; or `w` when what was asked of the host hangs there: then what the options point to
 * must stay. NULL is fine.
 */
struct web *web_stop(struct web *w);
