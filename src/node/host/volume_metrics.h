/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects I/O and usage of each staged volume for /metrics (--volume-metrics). A series ends when
 * its volume is unstaged. Sampling the host is separate from printing.
 */
#pragma once

#include "node/node.h"

struct volume_metrics;

struct volume_metrics *volume_metrics_new(void);
struct volume_metrics *volume_metrics_free(struct volume_metrics *v); /* `v` may be NULL */
/*
 * Samples the host: sysfs, and each filesystem through the guard. Once it has spent a few seconds
 * on filesystems that hang, it skips the remaining ones. One thread at a time.
 */
void volume_metrics_sample(struct volume_metrics *v, struct node *n);
/* Appends the last sample to `out`. Any thread, never blocks. */
void volume_metrics_print(struct volume_metrics *v, struct str *out);
