/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metrics in Prometheus' text format (version 0.0.4). Reads the values of metric.c and changes
 * none; printing takes no lock.
 */
#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "common/metric_priv.h"

static const char *const types[] = {
	[METRIC_KIND_COUNTER] = "counter",
	[METRIC_KIND_GAUGE] = "gauge",
	[METRIC_KIND_HISTOGRAM] = "histogram",
	[METRIC_KIND_SPANS] = "gauge",
};

static bool is_seconds(const char *name)
{
	return str_has_suffix(name, "_seconds") || str_has_suffix(name, "_seconds_total");
}

static void add_head(struct str *out, const char *name, const char *suffix, const char *type,
                     const char *text, const char *text_more)
{
	str_addf(out, "# HELP %s%s %s%s\n# TYPE %s%s %s\n", name, suffix, text, text_more, name,
	         suffix, type);
}

/* Adds {a="b",le="1"}; le may be NULL. */
static void add_labels(struct str *out, const struct metric_row *r, size_t series, const char *le)
{
	const char *words[METRIC_LABELS], *separator = "{";

	metric_series_words(r, series, words);
	for (size_t i = 0; i < METRIC_LABELS && r->labels[i]; i++, separator = ",")
		str_addf(out, "%s%s=\"%s\"", separator, metric_label_name(r->labels[i]), words[i]);
	if (le) {
		str_addf(out, "%sle=\"%s\"", separator, le);
		separator = ",";
	}
	if (*separator == ',')
		str_add(out, "}");
}

static void add_ns(struct str *out, int64_t ns)
{
	str_addf(out, " %" PRId64 ".%06" PRId64 "\n", ns / 1000000000, ns % 1000000000 / 1000);
}

static void print_number(struct str *out, enum metric_id m, size_t series)
{
	const struct metric_row *r = &metric_rows[m];
	int64_t value = metric_cell(m, series, 0);

	str_add(out, r->name);
	add_labels(out, r, series, NULL);
	if (is_seconds(r->name))
		add_ns(out, value);
	else
		str_addf(out, " %" PRId64 "\n", value);
}

static void print_histogram(struct str *out, enum metric_id m, size_t series)
{
	const struct metric_row *r = &metric_rows[m];
	int64_t sum = metric_cell(m, series, METRIC_BUCKETS), count = 0;

	for (size_t i = 0; i < METRIC_BUCKETS; i++) {
		count += metric_cell(m, series, i);
		str_addf(out, "%s_bucket", r->name);
		add_labels(out, r, series, metric_bucket_ends[i]);
		str_addf(out, " %" PRId64 "\n", count);
	}
	str_addf(out, "%s_sum", r->name);
	add_labels(out, r, series, NULL);
	add_ns(out, sum);
	str_addf(out, "%s_count", r->name);
	add_labels(out, r, series, NULL);
	str_addf(out, " %" PRId64 "\n", count);
}

static void print_spans(struct str *out, enum metric_id m)
{
	const struct metric_row *r = &metric_rows[m];
	struct metric_spans *all AUTO(free) = xcalloc(r->series, sizeof(*all));

	metric_spans_read(m, all);
	for (size_t i = 0; i < r->series; i++)
		if (metric_series_shows(m, i)) {
			str_add(out, r->name);
			add_labels(out, r, i, NULL);
			str_addf(out, " %u\n", all[i].n);
		}
	add_head(out, r->name, "_oldest_seconds", "gauge", "age of the oldest of ", r->name);
	for (size_t i = 0; i < r->series; i++)
		if (metric_series_shows(m, i)) {
			str_addf(out, "%s_oldest_seconds", r->name);
			add_labels(out, r, i, NULL);
			add_ns(out, all[i].oldest);
		}
}

static bool is_of(const struct metric_row *r, unsigned modes)
{
	if (str_empty(r->modes))
		return true;
	return modes & (str_eq(r->modes, "node") ? METRIC_NODE : METRIC_CONTROLLER);
}

static void print_metric(struct str *out, enum metric_id m)
{
	const struct metric_row *r = &metric_rows[m];

	add_head(out, r->name, "", types[r->kind], r->text, "");
	if (r->kind == METRIC_KIND_SPANS) {
		print_spans(out, m);
		return;
	}
	for (size_t i = 0; i < r->series; i++)
		if (metric_series_shows(m, i) && r->kind == METRIC_KIND_HISTOGRAM)
			print_histogram(out, m, i);
		else if (metric_series_shows(m, i))
			print_number(out, m, i);
}

void metric_print(struct str *out, unsigned modes)
{
	for (enum metric_id m = 0; m < METRICS; m++)
		if (is_of(&metric_rows[m], modes))
			print_metric(out, m);
}

/* ---- metrics of volumes ---- */

static const struct {
	enum metric_kind kind;
	const char *name, *text;
} volume_rows[VOLUME_METRICS] = {
#define VOLUME(kind_, id, name_, text_) { METRIC_KIND_##kind_, name_, text_ },
#include "common/metrics.def"
};

/*
 * Writes the value between quotes. Characters that are not printable ASCII are dropped; ids have no
 * such characters.
 */
static void add_label_value(struct str *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			str_add(out, "\\");
		if (*text >= ' ' && *text <= '~')
			str_addn(out, text, 1);
	}
}

static void print_of_volume(struct str *out, enum volume_metric m, const struct volume_numbers *v)
{
	str_addf(out, "%s{volume=\"", volume_rows[m].name);
	add_label_value(out, v->volume);
	str_add(out, "\",device=\"");
	add_label_value(out, v->device);
	str_add(out, "\"}");
	if (is_seconds(volume_rows[m].name))
		add_ns(out, v->values[m]);
	else
		str_addf(out, " %" PRId64 "\n", v->values[m]);
}

void metric_print_volumes(struct str *out, const struct volume_numbers *v, size_t n)
{
	for (enum volume_metric m = 0; m < VOLUME_METRICS; m++) {
		add_head(out, volume_rows[m].name, "", types[volume_rows[m].kind],
		         volume_rows[m].text, "");
		for (size_t i = 0; i < n; i++)
			if (v[i].known[m])
				print_of_volume(out, m, &v[i]);
	}
}
