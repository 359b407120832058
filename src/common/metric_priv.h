/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by metric.c, which owns the values, and metric_text.c, which prints them. */
#pragma once

#include "common/metric.h"

enum metric_label {
	METRIC_LABEL_NONE,
#define LABEL(id, ...) METRIC_LABEL_##id,
#include "common/metrics.def"
	METRIC_LABEL_COUNT
};

/* In printing order. */
enum metric_kind {
	METRIC_KIND_COUNTER,
	METRIC_KIND_GAUGE,
	METRIC_KIND_HISTOGRAM,
	METRIC_KIND_SPANS
};

/* Upper bounds of a histogram's buckets, as printed; the last is +Inf. */
#define METRIC_BUCKETS 13
extern const char *const metric_bucket_ends[METRIC_BUCKETS];

struct metric_row {
	enum metric_kind kind;
	const char *modes, *name, *text;
	enum metric_label labels[METRIC_LABELS];
	size_t series; /* maximum number of combinations of labels */
};
extern const struct metric_row metric_rows[METRICS];

const char *metric_label_name(enum metric_label l);
/* Returns the label values of a series, "" for a missing label. */
void metric_series_words(const struct metric_row *r, size_t series, const char *ret[METRIC_LABELS]);
/* Returns true if the series has been counted, or is printed even before that. */
bool metric_series_shows(enum metric_id m, size_t series);
/*
 * Returns one number of a series. A counter or gauge has cell 0; a histogram has a cell for each
 * bucket (not cumulative), then the sum in ns.
 */
int64_t metric_cell(enum metric_id m, size_t series, size_t cell);

struct metric_spans {
	unsigned n;
	int64_t oldest; /* duration of the oldest span, ns */
};
/* Adds up the current spans; `ret` has row.series members, zeroed. */
void metric_spans_read(enum metric_id m, struct metric_spans *ret);
