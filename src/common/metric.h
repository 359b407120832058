/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters for /metrics, generated from metrics.def. Any thread.
 *
 * An update is a few atomic additions. It takes no lock, and allocates memory only for a new label
 * value; the label's row limits the number of values. Updates are made even without
 * --http-endpoint, at a cost of some ns for each call.
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
 * The values of a metric's labels, in the order of its row. A value that is too long, that has
 * characters other than letters, digits, space and ._:/-, or that exceeds the label's limit is
 * counted as "other".
 */
#define LABELS(...) ((const char *const[METRIC_LABELS]) { __VA_ARGS__ })

/* Adds to a counter or a gauge. labels: LABELS(), or NULL for a metric without labels. */
void metric_add(enum metric_id m, int64_t n, const char *const labels[METRIC_LABELS]);
/* Sets a gauge, or the total of an external counter. */
void metric_set(enum metric_id m, int64_t value, const char *const labels[METRIC_LABELS]);
/* Adds a duration of `ns` to a histogram. */
void metric_observe(enum metric_id m, int64_t ns, const char *const labels[METRIC_LABELS]);

/*
 * Begins a span, which lasts until metric_end(). Returns its number, or 0 if there are too many
 * spans; the functions accept 0 and then do nothing. metric_span_labels() changes the span's labels
 * and keeps its age.
 */
unsigned metric_begin(enum metric_id m, const char *const labels[METRIC_LABELS]);
void metric_span_labels(unsigned span, enum metric_id m, const char *const labels[METRIC_LABELS]);
void metric_end(unsigned span);
/* Returns the value for these labels: a counter's or gauge's value, a histogram's count. */
int64_t metric_value(enum metric_id m, const char *const labels[METRIC_LABELS]);

/* ---- metric_text.c ---- */

enum { METRIC_CONTROLLER = 1, METRIC_NODE = 2 }; /* modes */
/* Appends all metrics of these modes in Prometheus' text format. */
void metric_print(struct str *out, unsigned modes);
enum volume_metric {
#define VOLUME(kind, id, ...) VOLUME_METRIC_##id,
#include "common/metrics.def"
	VOLUME_METRICS
};
struct volume_numbers {
	char *volume, *device;          /* the labels; any text */
	int64_t values[VOLUME_METRICS]; /* times in ns */
	bool known[VOLUME_METRICS];     /* values that are not known are not printed */
};
/* Appends the metrics of these volumes. */
void metric_print_volumes(struct str *out, const struct volume_numbers *v, size_t n);
