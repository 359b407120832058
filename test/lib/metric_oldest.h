/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a metric of kind SPANS. */
#pragma once

#include "common/metric.h"

/* The age of the oldest span of the metric, ns; 0: no span is open. */
int64_t metric_oldest(enum metric_id m);
