/* SPDX-License-Identifier: Apache-2.0 */
/* Counting, and its output in /metrics and docs/reference/metrics.md. Each test is a separate process. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "common/metric_priv.h"
#include "test/lib/doc_table.h"
#include "test/lib/metric_oldest.h"
#include "test/lib/suite.h"

#define ALL (METRIC_CONTROLLER | METRIC_NODE)

static char *page(unsigned modes)
{
	struct str out = STR_INIT(4 << 20);

	metric_print(&out, modes);
	return str_take(&out);
}

static void expect(const char *text)
{
	char *all AUTO(free) = page(ALL);

	ck_assert_msg(strstr(all, text) != NULL, "\"%s\" is not in:\n%.3000s", text, all);
}

static void expect_not(const char *text)
{
	char *all AUTO(free) = page(ALL);

	ck_assert_msg(strstr(all, text) == NULL, "\"%s\" is in:\n%.3000s", text, all);
}

START_TEST(a_counter_is_printed_with_its_labels)
{
	metric_add(METRIC_API_RETRIES, 2, LABELS("create", "dpuvolumes"));
	metric_add(METRIC_API_RETRIES, 1, LABELS("create", "dpuvolumes"));
	ck_assert_int_eq(metric_value(METRIC_API_RETRIES, LABELS("create", "dpuvolumes")), 3);
	expect("# TYPE snap_csi_api_retries_total counter\n");
	expect("\nsnap_csi_api_retries_total{verb=\"create\",resource=\"dpuvolumes\"} 3\n");
}
END_TEST

START_TEST(a_controller_has_no_node)
{
	metric_set(METRIC_BUILD_INFO, 1, LABELS("1.0", "controller", ""));
	expect("\nsnap_csi_build_info{version=\"1.0\",mode=\"controller\",node=\"\"} 1\n");
}
END_TEST

START_TEST(a_node_may_have_a_name_of_any_length)
{
	char name[254];

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	metric_set(METRIC_BUILD_INFO, 1, LABELS("1.0", "node", name));
	expect("nnnnnnnn\"} 1\n");
	expect_not("node=\"other\"");
}
END_TEST

START_TEST(buckets_add_up_and_the_sum_is_in_seconds)
{
	static const int64_t ns[] = { 900000, 2000000, 5000000, INT64_C(1500000000),
		                      INT64_C(500000000000) };

	for (size_t i = 0; i < ARRAY_LEN(ns); i++)
		metric_observe(METRIC_OPERATIONS, ns[i], LABELS("CreateVolume", "OK"));
#define NAME "snap_csi_operation_duration_seconds"
#define OF "{method=\"CreateVolume\",code=\"OK\""
	expect("\n" NAME "_bucket" OF ",le=\"0.001\"} 1\n" NAME "_bucket" OF ",le=\"0.005\"} 3\n");
	expect("\n" NAME "_bucket" OF ",le=\"2.5\"} 4\n");
	expect("\n" NAME "_bucket" OF ",le=\"120\"} 4\n" NAME "_bucket" OF ",le=\"+Inf\"} 5\n");
	expect("\n" NAME "_sum" OF "} 501.507900\n" NAME "_count" OF "} 5\n");
	ck_assert_int_eq(metric_value(METRIC_OPERATIONS, LABELS("CreateVolume", "OK")), 5);
}
END_TEST

START_TEST(what_lasts_is_counted_while_it_lasts)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	unsigned a = metric_begin(METRIC_WAITS, LABELS("dpuvolumes", "none")), b;
	int64_t before_b;

	nanosleep(&pause, NULL);
	before_b = monotonic_ns();
	b = metric_begin(METRIC_WAITS, LABELS("dpuvolumes", "none"));
	ck_assert_uint_ne(a, 0);
	ck_assert_uint_ne(a, b);
	expect("\nsnap_csi_waits{resource=\"dpuvolumes\",condition=\"none\"} 2\n");
	metric_span_labels(a, METRIC_WAITS, LABELS("dpuvolumes", "Bound"));
	expect("\nsnap_csi_waits{resource=\"dpuvolumes\",condition=\"Bound\"} 1\n");
	ck_assert_int_ge(metric_oldest(METRIC_WAITS), 20000000);
	metric_end(a);
	/* Younger by the pause: only b is open, however slow the machine is. */
	ck_assert_int_le(metric_oldest(METRIC_WAITS), monotonic_ns() - before_b);
	metric_end(b);
	metric_end(0); /* the number of no span */
	ck_assert_int_eq(metric_oldest(METRIC_WAITS), 0);
	expect("\nsnap_csi_waits{resource=\"dpuvolumes\",condition=\"Bound\"} 0\n");
	expect("\nsnap_csi_waits_oldest_seconds{resource=\"dpuvolumes\",condition=\"Bound\"} 0.000000\n");
}
END_TEST

START_TEST(more_than_there_is_room_for_does_no_harm)
{
	unsigned spans[17000];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(spans); i++)
		spans[i] = metric_begin(METRIC_API_QUEUE, NULL);
	for (size_t i = 0; i < ARRAY_LEN(spans); i++)
		n += spans[i] == 0;
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_lt(n, 1000);
	metric_end(spans[100]);
	ck_assert_uint_eq(metric_begin(METRIC_API_QUEUE, NULL), spans[100]); /* free again */
	for (size_t i = 0; i < ARRAY_LEN(spans); i++)
		metric_end(spans[i]);
	expect("\nsnap_csi_api_queue 0\n");
}
END_TEST

START_TEST(words_are_bounded_in_number_and_form)
{
	for (int i = 0; i < 100; i++) {
		char word[16];

		snprintf(word, sizeof(word), "Type%d", i);
		metric_observe(METRIC_WAITED, 1, LABELS(word, "reached"));
	}
	metric_observe(METRIC_OPERATIONS, 1, LABELS("a\"} 1\nb{c=\"", "OK"));
	metric_observe(METRIC_OPERATIONS, 1, LABELS(NULL, "OK"));
	expect("_count{resource=\"Type11\",result=\"reached\"} 1\n");
	expect("_count{resource=\"other\",result=\"reached\"} 88\n");
	expect_not("Type12");
	expect("_count{method=\"other\",code=\"OK\"} 2\n");
}
END_TEST

START_TEST(what_can_be_known_shows_before_it_happens)
{
	expect("\nsnap_csi_connections_opened_total 0\n");
	expect("\nsnap_csi_api_queue 0\n");
	/* A gauge that was never set is unknown, not 0. */
	expect_not("\nprocess_open_fds 0\n");
	expect_not("\nsnap_csi_watch_open{");
}
END_TEST

START_TEST(a_mode_shows_its_metrics_only)
{
	char *node AUTO(free) = page(METRIC_NODE);
	char *controller AUTO(free) = page(METRIC_CONTROLLER);

	ck_assert_ptr_null(strstr(node, "snap_csi_api_"));
	ck_assert_ptr_nonnull(strstr(node, "snap_csi_operations_running"));
	ck_assert_ptr_nonnull(strstr(controller, "snap_csi_api_"));
}
END_TEST

static void *count_much(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++) {
		unsigned span = metric_begin(METRIC_OPERATIONS_RUNNING, LABELS("NodeStageVolume"));

		metric_observe(METRIC_OPERATIONS, i, LABELS("NodeStageVolume", "OK"));
		metric_end(span);
	}
	return NULL;
}

START_TEST(threads_lose_no_count)
{
	pthread_t t[4];

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_create(&t[i], NULL, count_much, NULL);
	for (int i = 0; i < 20; i++)
		free(page(ALL));
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(metric_value(METRIC_OPERATIONS, LABELS("NodeStageVolume", "OK")), 80000);
	ck_assert_int_eq(metric_oldest(METRIC_OPERATIONS_RUNNING), 0);
}
END_TEST

struct beginner {
	pthread_barrier_t *start;
	unsigned spans[4000];
};

static void *begin_many(void *arg)
{
	struct beginner *b = arg;

	pthread_barrier_wait(b->start);
	for (size_t i = 0; i < ARRAY_LEN(b->spans); i++)
		b->spans[i] = metric_begin(METRIC_API_QUEUE, NULL);
	return NULL;
}

START_TEST(what_threads_begin_at_the_same_moment_is_counted_apart)
{
	static struct beginner b[4];
	pthread_t t[ARRAY_LEN(b)];
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, ARRAY_LEN(b));
	for (size_t i = 0; i < ARRAY_LEN(b); i++) {
		b[i].start = &start;
		pthread_create(&t[i], NULL, begin_many, &b[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(b); i++)
		pthread_join(t[i], NULL);
	expect("\nsnap_csi_api_queue 16000\n");
	for (size_t i = 0; i < ARRAY_LEN(b); i++)
		for (size_t n = 0; n < ARRAY_LEN(b[i].spans); n++)
			metric_end(b[i].spans[n]);
	expect("\nsnap_csi_api_queue 0\n");
	pthread_barrier_destroy(&start);
}
END_TEST

START_TEST(volumes_have_their_names_as_labels)
{
	struct str out AUTO(str_clear) = STR_INIT(1 << 16);
	struct volume_numbers v = { .volume = (char *)"a\"b\\c\n", .device = (char *)"nvme0n1" };

	v.values[VOLUME_METRIC_IO] = INT64_C(1500000000);
	v.known[VOLUME_METRIC_IO] = true;
	metric_print_volumes(&out, &v, 1);
	ck_assert_ptr_nonnull(strstr(out.ptr, "\nsnap_csi_volume_io_seconds_total{volume=\"a\\\"b"
	                                      "\\\\c\",device=\"nvme0n1\"} 1.500000\n"));
	ck_assert_ptr_null(strstr(out.ptr, "\nsnap_csi_volume_reads_total{"));
}
END_TEST

/* ---- docs/reference/metrics.md ---- */

static const char *const types[] = { "counter", "gauge", "histogram", "gauge" };

static void add_row(struct str *out, const struct metric_row *r, const char *suffix,
                    const char *before, const char *text)
{
	str_addf(out, "| `%s%s", r->name, suffix);
	for (size_t i = 0; i < METRIC_LABELS && r->labels[i]; i++)
		str_addf(out, "%s%s", i ? ", " : "{", metric_label_name(r->labels[i]));
	str_addf(out, "%s` | %s | %s%s |\n", r->labels[0] ? "}" : "", types[r->kind], before, text);
}

/* Adds the metrics of one value of metrics.def's column "modes". */
static void add_mode(struct str *out, const char *modes, const char *heading)
{
	str_addf(out, "%s\n\n| Metric | Type | Meaning |\n| --- | --- | --- |\n", heading);
	for (enum metric_id m = 0; m < METRICS; m++) {
		const struct metric_row *r = &metric_rows[m];

		if (!str_eq(r->modes, modes))
			continue;
		add_row(out, r, "", "", r->text);
		if (r->kind == METRIC_KIND_SPANS)
			add_row(out, r, "_oldest_seconds", "age of the oldest of ", r->name);
	}
}

static const struct {
	enum metric_kind kind;
	const char *name, *text;
} volumes[] = {
#define VOLUME(kind_, id, name_, text_) { METRIC_KIND_##kind_, name_, text_ },
#include "common/metrics.def"
};

START_TEST(the_document_has_every_metric)
{
	struct str table AUTO(str_clear) = STR_INIT(1 << 20);

	add_mode(&table, "", "\n### Both modes");
	add_mode(&table, "controller", "\n### Controller");
	add_mode(&table, "node", "\n### Node");
	str_add(&table,
	        "\n### Volumes\n\nWith `--volume-metrics`, each with the labels `volume` and `device`:\n\n"
	        "| Metric | Type | Meaning |\n| --- | --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(volumes); i++)
		str_addf(&table, "| `%s` | %s | %s |\n", volumes[i].name, types[volumes[i].kind],
		         volumes[i].text);
	str_add(&table, "\n");
	doc_table_check("docs/reference/metrics.md", "metrics", table.ptr);
}
END_TEST

START_TEST(a_label_of_any_bytes_adds_no_line_and_ends_no_quotes)
{
	struct volume_numbers v = { .volume = (char *)"a\nb 1\n\"} 2\\\x7f\xc3\xbc",
		                    .device = (char *)"nvme\r\n",
		                    .known[VOLUME_METRIC_READS] = true,
		                    .values[VOLUME_METRIC_READS] = 5 };
	struct str text AUTO(str_clear) = STR_INIT(65536);

	metric_print_volumes(&text, &v, 1);
	ck_assert_msg(strstr(text.ptr, "{volume=\"ab 1\\\"} 2\\\\\",device=\"nvme\"} 5\n") != NULL,
	              "%s", text.ptr);
}
END_TEST

SUITE("metric", a_label_of_any_bytes_adds_no_line_and_ends_no_quotes,
      a_counter_is_printed_with_its_labels, a_controller_has_no_node,
      a_node_may_have_a_name_of_any_length, buckets_add_up_and_the_sum_is_in_seconds,
      what_lasts_is_counted_while_it_lasts, more_than_there_is_room_for_does_no_harm,
      words_are_bounded_in_number_and_form, what_can_be_known_shows_before_it_happens,
      a_mode_shows_its_metrics_only, threads_lose_no_count,
      what_threads_begin_at_the_same_moment_is_counted_apart, volumes_have_their_names_as_labels,
      the_document_has_every_metric);
