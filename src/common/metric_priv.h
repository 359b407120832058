/* SPDX-License-Identifier: Apache-2.0 */
/* Between metric.c, which owns the numbers, and metric_text.c, which prints them. */
#pragma once

#include "common/metric.h"

enum metric_label {
	METRIC_LABEL_NONE,
#define LABEL(id, ...) METRIC_LABEL_##id,
#include "common/metrics.def"
	METRIC_LABEL_COUNT
};

/* In the order in which they are printed. */
enum metric_kind {
	METRIC_KIND_COUNTER,
	METRIC_KIND_GAUGE,
	METRIC_KIND_HISTOGRAM,
	METRIC_KIND_SPANS
};

/* Upper ends of a histogram's buckets, as printed; the last is +Inf. */
#define METRIC_BUCKETS 13
extern const char *const metric_bucket_ends[METRIC_BUCKETS];

struct metric_row {
	enum metric_kind kind;
	const char *modes, *name, *text;
	enum metric_label labels[METRIC_LABELS];
	size_t series; /* how many sets of labels there can be */
};
extern const struct metric_row metric_rows[METRICS];

const char *metric_label_name(enum metric_label l);
/* The words of a series, "" where there is no label. */
void metric_series_words(const struct metric_row *r, size_t series, const char *ret[METRIC_LABELS]);
/* Has the series been counted, or is it to show before? */
bool metric_series_shows(enum metric_id m, size_t series);
/* Cell 0 of a counter or gauge; of a histogram the buckets (not added up), then the sum in ns. */
int64_t metric_cell(enum metric_id m, size_t series, size_t cell);

struct metric_spans {
	unsigned n;
	int64_t oldest; /* how long it lasts, ns */
};
/* Adds up what lasts now; `ret` has row.series members, zeroed. */
void metric_spans_read(enum metric_id m, struct metric_spans *ret);
