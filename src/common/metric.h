/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters for /metrics, made from metrics.def. Any thread.
 *
 * An update is a few atomic additions: no lock, and no memory but for a word that a label has not
 * had before, of which there are as many as the label's row says. Counting goes on whether or not
 * anybody reads: a process without --http-endpoint pays some ns for each call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"

enum metric_id {
#define METRIC(kind, id, ...) METRIC_##id,
#include "common/metrics.def"
	METRICS
};

#define METRIC_LABELS 3
/*
 * The values of a metric's labels, in the order of its row. A word that is too long or has other
 * characters than letters, digits, space and ._:/- counts as "other", so does one too many.
 */
#define LABELS(...) ((const char *const[METRIC_LABELS]) { __VA_ARGS__ })

/* Adds to a counter or a gauge. labels: LABELS(), or NULL when it has none. */
void metric_add(enum metric_id m, int64_t n, const char *const labels[METRIC_LABELS]);
/* Sets a gauge, or the total of what somebody else counts. */
void metric_set(enum metric_id m, int64_t value, const char *const labels[METRIC_LABELS]);
/* Something took `ns`: for a histogram. */
void metric_observe(enum metric_id m, int64_t ns, const char *const labels[METRIC_LABELS]);

/*
 * Something begins to last, until metric_end(). Returns its number, never 0; 0 when too many last,
 * and that is a number too: of nothing. metric_span_labels() gives it other labels and leaves its
 * age.
 */
unsigned metric_begin(enum metric_id m, const char *const labels[METRIC_LABELS]);
void metric_span_labels(unsigned span, enum metric_id m, const char *const labels[METRIC_LABELS]);
void metric_end(unsigned span);
/* What has been counted under these labels: a counter's or gauge's value, a histogram's count. */
int64_t metric_value(enum metric_id m, const char *const labels[METRIC_LABELS]);

/* ---- metric_text.c ---- */

enum { METRIC_CONTROLLER = 1, METRIC_NODE = 2 }; /* modes */
/* Adds all metrics of these modes in Prometheus' text format. */
void metric_print(struct str *out, unsigned modes);
enum volume_metric {
#define VOLUME(kind, id, ...) VOLUME_METRIC_##id,
#include "common/metrics.def"
	VOLUME_METRICS
};
struct volume_numbers {
	char *volume, *device;          /* the labels; any text */
	int64_t values[VOLUME_METRICS]; /* times in ns */
	bool known[VOLUME_METRICS];     /* the others do not show */
};
/* Adds the metrics of these volumes. */
void metric_print_volumes(struct str *out, const struct volume_numbers *v, size_t n);
