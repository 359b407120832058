/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a metric of kind SPANS. */
#pragma once

#include "common/metric.h"

/* How long the oldest of the metric lasts, ns; 0: none does. */
int64_t metric_oldest(enum metric_id m);
