/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the gauges of this host for /metrics: the functions that the DPU offers, and how many are in
 * use.
 */
#pragma once

#include "node/node.h"
#include "node/target/mountpoint.h"

/*
 * Returns true if the maximum number of volumes of this node is known. Returns false if the DPU
 * shows no function and never has; `why` then lists the searched paths. Reads sysfs, which may
 * hang.
 */
bool node_has_functions(const struct node *n, struct str *why);
/*
 * Calls fn for each disk and share of the DPU that is mounted below kubelet's directory. `p` is its
 * oldest mount, which is the staging path; `dev` is zeroed for a share. Reads sysfs and mountinfo.
 */
typedef void node_staged_fn(void *arg, const struct mountpoint *p, const struct device *dev);
void node_each_staged(struct node *n, node_staged_fn *fn, void *arg);
/*
 * Returns true if this driver may have to unmount a mount below kubelet's directory, or if
 * mountinfo cannot be read. Every mount of a removed disk is included, whatever driver it belonged
 * to. Any thread.
 */
bool node_may_have_staged(const struct node *n);
/*
 * Counts hung sysfs accesses and long-running jobs from in-memory state, without accessing the
 * host. Any thread.
 */
void node_count_hung(const struct node *n);
/*
 * Updates the other gauges. Reads sysfs and mountinfo, which may hang; changes nothing. One thread
 * at a time.
 */
void node_count(struct node *n);
