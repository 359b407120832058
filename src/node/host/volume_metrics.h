/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O and bytes of each staged volume, for /metrics (--volume-metrics): as many as are staged, and
 * none that was. What asks the host is apart from what prints.
 */
#pragma once

#include "node/node.h"

struct volume_metrics;

struct volume_metrics *volume_metrics_new(void);
struct volume_metrics *volume_metrics_free(struct volume_metrics *v); /* NULL is fine */
/*
 * Asks the host anew: sysfs, and each filesystem through the guard. Of filesystems that hang it
 * asks no more after some seconds. One thread at a time.
 */
void volume_metrics_sample(struct volume_metrics *v, struct node *n);
/* Adds the last sample. Any thread, never blocks. */
void volume_metrics_print(struct volume_metrics *v, struct str *out);
