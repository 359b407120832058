/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the start-up taint (node_taint.h) off nodes on which kubelet has registered the driver
 * (--startup-taint). One thread of its own, beside all calls.
 *
 * Watches the CSINodes and caches none; their names wait in a queue of STARTUP_TAINT_NAMES at most.
 * All Nodes are read, a page at a time, when the watch has begun, and after that one page a minute,
 * for changes without an event: a taint that was added later, or a registration that kubelet had no
 * reason to write again.
 */
#pragma once

#include "common/err.h"
#include "kube/kube.h"

#define STARTUP_TAINT_NAMES 1024

struct startup_taint;

struct startup_taint_options {
	struct kube *kube;
	const char *driver;
	int page_ms;  /* between two pages of Nodes; 0: a minute. For tests, as the next ones */
	int page;     /* Nodes in a page; 0: 50 */
	int retry_ms; /* the first pause after a failure; 0: a second; a minute is the longest */
};

/* The strings outlive it. */
int startup_taint_start(const struct startup_taint_options *o, struct startup_taint **ret,
                        struct err *err) MUST_CHECK;
/* Ends the thread, and with it the requests; before kube_free(). NULL is fine. */
void startup_taint_stop(struct startup_taint *t);
/* After kube_free(), whose thread passes events until then. Returns NULL. */
struct startup_taint *startup_taint_free(struct startup_taint *t);
