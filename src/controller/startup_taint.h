/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes the start-up taint (node_taint.h) from nodes on which kubelet has registered the driver
 * (--startup-taint). It runs on its own thread, which no call waits for.
 *
 * It watches the CSINodes without caching them; their names wait in a queue of at most
 * STARTUP_TAINT_NAMES. When the watch has begun, it reads all Nodes page by page, and after that
 * one page a minute, to find changes without an event: a taint that was added later, or a
 * registration that kubelet had no reason to write again.
 */
#pragma once

#include "common/err.h"
#include "kube/kube.h"

#define STARTUP_TAINT_NAMES 1024

struct startup_taint;

struct startup_taint_options {
	struct kube *kube;
	const char *driver;
	int page_ms;  /* between two pages of Nodes; 0: a minute. For tests, like the next two */
	int page;     /* Nodes in a page; 0: 50 */
	int retry_ms; /* the first pause after a failure; 0: a second; at most a minute */
};

/* The strings in `o` must outlive it. */
int startup_taint_start(const struct startup_taint_options *o, struct startup_taint **ret,
                        struct err *err) MUST_CHECK;
/* Ends the thread and its requests; call it before kube_free(). NULL is allowed. */
void startup_taint_stop(struct startup_taint *t);
/*
 * Call it after kube_free(), because the client's thread passes events until then. NULL is allowed;
 * returns NULL.
 */
struct startup_taint *startup_taint_free(struct startup_taint *t);
