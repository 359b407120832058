/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges of this host for /metrics: what the DPU offers, and how much of it is in use. */
#pragma once

#include "node/node.h"
#include "node/target/mountpoint.h"

/*
 * Is it known how many volumes this node takes? Not when the DPU shows no function and never has:
 * `why` says where was looked. Reads sysfs, which may hang.
 */
bool node_has_functions(const struct node *n, struct str *why);
/*
 * Calls fn for each disk and share of the DPU that is mounted below kubelet's directory, with its
 * oldest mount, which is where it is staged. `dev` is zeroed for a share. Reads sysfs and
 * mountinfo.
 */
typedef void node_staged_fn(void *arg, const struct mountpoint *p, const struct device *dev);
void node_each_staged(struct node *n, node_staged_fn *fn, void *arg);
/*
 * Is anything mounted below kubelet's directory that kubelet may have to unmount by this driver?
 * Also a disk that has gone, whosever it was; and when mountinfo cannot be read. Any thread.
 */
bool node_may_have_staged(const struct node *n);
/* Counts accesses to sysfs that hang, and old jobs, from memory. Any thread. */
void node_count_hung(const struct node *n);
/* Reads sysfs and mountinfo, which may hang; changes nothing. One thread at a time. */
void node_count(struct node *n);
