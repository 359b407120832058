/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values for /metrics are atomics in static memory, of which only the pages in use take memory.
 * Label values are numbered; the index of a series is computed from the numbers of its label
 * values.
 *
 * A span (a call, a wait) is a slot with its start time, so that a reader can count spans and
 * determine their ages without a lock. A slot may change while it is being read, so the reader
 * reads it twice and skips a slot that has changed.
 */
#include "common/metric_priv.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/deadline.h"
#include "common/mem.h"

#define WORD_MAX 253 /* maximum length; a node's name */
#define WORD_OTHER "other"
/* More slots than all calls can use for the call, its volume, and its wait. */
#define SLOTS 16384
/*
 * A metric with at most this many series prints all of them from the start, if all their label
 * values are known.
 */
#define SHOWN_SERIES 64

/* ---- the tables ---- */

#define CELLS_COUNTER 1
#define CELLS_GAUGE 1
#define CELLS_HISTOGRAM (METRIC_BUCKETS + 1)
#define CELLS_SPANS 1

/* The number of values of a label, including "other". */
enum {
	WORDS_NONE = 1,
#define LABEL(id, name, most, values) WORDS_##id = (most) + 1,
#include "common/metrics.def"
};

#define SERIES(label1, label2, label3) ((size_t)WORDS_##label1 * WORDS_##label2 * WORDS_##label3)

static struct {
#define METRIC(kind, id, modes, name, label1, label2, label3, text) \
	_Atomic int64_t id[SERIES(label1, label2, label3) * CELLS_##kind];
#include "common/metrics.def"
} cells;

/* Whether the series has been counted. */
static struct {
#define METRIC(kind, id, modes, name, label1, label2, label3, text) \
	atomic_bool id[SERIES(label1, label2, label3)];
#include "common/metrics.def"
} known;

static struct {
#define LABEL(id, name, most, values) _Atomic(const char *) id[most];
#include "common/metrics.def"
} words;

const struct metric_row metric_rows[METRICS] = {
#define METRIC(kind_, id, modes_, name_, label1, label2, label3, text_)                      \
	{ .kind = METRIC_KIND_##kind_,                                                       \
	  .modes = (modes_),                                                                 \
	  .name = (name_),                                                                   \
	  .text = (text_),                                                                   \
	  .labels = { METRIC_LABEL_##label1, METRIC_LABEL_##label2, METRIC_LABEL_##label3 }, \
	  .series = SERIES(label1, label2, label3) },
#include "common/metrics.def"
};

static const struct {
	_Atomic int64_t *cells;
	atomic_bool *known;
	size_t cells_n; /* cells of a series */
} stores[METRICS] = {
#define METRIC(kind, id, ...) { cells.id, known.id, CELLS_##kind },
#include "common/metrics.def"
};

static const struct {
	const char *name, *values;
	_Atomic(const char *) *words;
	size_t n; /* number of words, without "other" */
} labels_[METRIC_LABEL_COUNT] = {
	[METRIC_LABEL_NONE] = { "", "", NULL, 0 },
#define LABEL(id, name, most, values) [METRIC_LABEL_##id] = { name, values, words.id, most },
#include "common/metrics.def"
};

const char *const metric_bucket_ends[METRIC_BUCKETS] = { "0.001", "0.005", "0.025", "0.1", "0.5",
	                                                 "1",     "2.5",   "5",     "10",  "30",
	                                                 "60",    "120",   "+Inf" };
static const int64_t bucket_ms[METRIC_BUCKETS - 1] = { 1,    5,    25,    100,   500,   1000,
	                                               2500, 5000, 10000, 30000, 60000, 120000 };

const char *metric_label_name(enum metric_label l)
{
	return labels_[l].name;
}

/* ---- words ---- */

static bool is_fit(const char *word, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)word[i]) && !strchr(" ._:/-", word[i]))
			return false;
	return n <= WORD_MAX;
}

/* Returns the value's number within the label; adds a new value if there is free space. */
static size_t metric_word_number(enum metric_label l, const char *word, size_t length)
{
	size_t n = labels_[l].n;
	char *copy = NULL;

	for (size_t i = 0; i < n; i++) {
		_Atomic(const char *) *at = &labels_[l].words[i];
		const char *there = atomic_load_explicit(at, memory_order_acquire);

		if (!there && !is_fit(word, length))
			break;
		if (!there) {
			copy = copy ? copy : xstrndup(word, length);
			if (atomic_compare_exchange_strong(at, &there, copy))
				return i;
		}
		if (strlen(there) == length && memcmp(there, word, length) == 0) {
			free(copy);
			return i;
		}
	}
	free(copy);
	return n;
}

/* Adds the values that are printed from the start. */
static void learn_words(void)
{
	for (size_t l = 1; l < METRIC_LABEL_COUNT; l++)
		for (const char *at = labels_[l].values; *at;) {
			size_t n = strcspn(at, "|");

			IGNORE_RESULT(metric_word_number((enum metric_label)l, at, n));
			at += n + (at[n] == '|');
		}
}

static size_t series_of(enum metric_id m, const char *const *words_)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t series = 0;

	pthread_once(&once, learn_words);
	for (size_t i = 0; i < METRIC_LABELS; i++) {
		enum metric_label l = metric_rows[m].labels[i];
		const char *word = words_ ? words_[i] : NULL;
		size_t n = labels_[l].n;

		if (l != METRIC_LABEL_NONE)
			series = series * (n + 1) +
			         (word && !str_eq(word, WORD_OTHER)
			                  ? metric_word_number(l, word, strlen(word))
			                  : n);
	}
	return series;
}

void metric_series_words(const struct metric_row *r, size_t series, const char *ret[METRIC_LABELS])
{
	for (size_t i = METRIC_LABELS; i-- > 0;) {
		enum metric_label l = r->labels[i];
		size_t n = labels_[l].n + 1, number = series % n;
		const char *word = WORD_OTHER;

		if (number < n - 1)
			word = atomic_load_explicit(&labels_[l].words[number],
			                            memory_order_acquire);
		ret[i] = l == METRIC_LABEL_NONE || !word ? "" : word;
		series /= n;
	}
}

/*
 * Returns true if all its label values are known in advance, and there are only a few. "other" does
 * not count as known. A gauge that was never set is unknown, and a histogram has too many lines.
 */
static bool shows_before(const struct metric_row *r, size_t series)
{
	if (r->series > SHOWN_SERIES ||
	    (r->kind != METRIC_KIND_COUNTER && r->kind != METRIC_KIND_SPANS))
		return false;
	for (size_t i = METRIC_LABELS; i-- > 0;) {
		size_t n = labels_[r->labels[i]].n + 1;

		if (n > 1 && (str_empty(labels_[r->labels[i]].values) || series % n == n - 1 ||
		              !labels_[r->labels[i]].words[series % n]))
			return false;
		series /= n;
	}
	return true;
}

bool metric_series_shows(enum metric_id m, size_t series)
{
	return atomic_load_explicit(&stores[m].known[series], memory_order_relaxed) ||
	       shows_before(&metric_rows[m], series);
}

/* ---- numbers ---- */

static _Atomic int64_t *cells_of(enum metric_id m, const char *const *words_)
{
	size_t series = series_of(m, words_);

	atomic_store_explicit(&stores[m].known[series], true, memory_order_relaxed);
	return stores[m].cells + series * stores[m].cells_n;
}

static void add(_Atomic int64_t *cell, int64_t n)
{
	atomic_fetch_add_explicit(cell, n, memory_order_relaxed);
}

void metric_add(enum metric_id m, int64_t n, const char *const words_[METRIC_LABELS])
{
	assert(metric_rows[m].kind <= METRIC_KIND_GAUGE);
	add(cells_of(m, words_), n);
}

void metric_set(enum metric_id m, int64_t value, const char *const words_[METRIC_LABELS])
{
	assert(metric_rows[m].kind <= METRIC_KIND_GAUGE);
	atomic_store_explicit(cells_of(m, words_), value, memory_order_relaxed);
}

void metric_observe(enum metric_id m, int64_t ns, const char *const words_[METRIC_LABELS])
{
	_Atomic int64_t *at = cells_of(m, words_);
	size_t bucket = 0;

	assert(metric_rows[m].kind == METRIC_KIND_HISTOGRAM);
	while (bucket < METRIC_BUCKETS - 1 && ns > bucket_ms[bucket] * NS_PER_MS)
		bucket++;
	add(&at[bucket], 1);
	add(&at[METRIC_BUCKETS], ns > 0 ? ns : 0);
}

int64_t metric_cell(enum metric_id m, size_t series, size_t cell)
{
	assert(series < metric_rows[m].series && cell < stores[m].cells_n);
	return atomic_load_explicit(&stores[m].cells[series * stores[m].cells_n + cell],
	                            memory_order_relaxed);
}

int64_t metric_value(enum metric_id m, const char *const words_[METRIC_LABELS])
{
	size_t series = series_of(m, words_);
	int64_t sum = 0;

	if (metric_rows[m].kind != METRIC_KIND_HISTOGRAM)
		return metric_cell(m, series, 0);
	for (size_t i = 0; i < METRIC_BUCKETS; i++)
		sum += metric_cell(m, series, i);
	return sum;
}

/* ---- spans ---- */

#define SLOT_FREE 0
#define WORD_BITS 64

static struct {
	_Atomic int64_t since; /* monotonic ns, or SLOT_FREE */
	_Atomic uint32_t what; /* metric and series */
} slots[SLOTS];
static _Atomic uint64_t used[SLOTS / WORD_BITS]; /* one bit per slot */
static _Atomic unsigned top;                     /* slots from this index on have never been used */

#define SERIES_BITS 20
#define WHAT(m, series) ((uint32_t)(m) << SERIES_BITS | (uint32_t)(series))
_Static_assert(METRICS < 1 << (32 - SERIES_BITS), "a metric's number has its place in a slot");

static void raise_top(unsigned n)
{
	unsigned old = atomic_load(&top);

	while (old < n && !atomic_compare_exchange_weak(&top, &old, n))
		;
}

/*
 * Takes the lowest free slot, so that few pages are in use. Searches a bitmap instead of the slots,
 * because thousands of used slots may precede the free one. Returns SLOTS if no slot is free.
 */
static unsigned take_slot(void)
{
	for (unsigned w = 0; w < ARRAY_LEN(used); w++) {
		uint64_t taken = atomic_load_explicit(&used[w], memory_order_relaxed);

		while (~taken) {
			unsigned bit = (unsigned)__builtin_ctzll(~taken);
			uint64_t mine = UINT64_C(1) << bit;

			taken = atomic_fetch_or(&used[w], mine);
			if (!(taken & mine))
				return w * WORD_BITS + bit;
		}
	}
	return SLOTS;
}

unsigned metric_begin(enum metric_id m, const char *const words_[METRIC_LABELS])
{
	size_t series = series_of(m, words_);
	unsigned i = take_slot();

	assert(metric_rows[m].kind == METRIC_KIND_SPANS && series < 1 << SERIES_BITS);
	atomic_store_explicit(&stores[m].known[series], true, memory_order_relaxed);
	if (i == SLOTS)
		return 0;
	raise_top(i + 1);
	atomic_store(&slots[i].what, WHAT(m, series));
	atomic_store(&slots[i].since, monotonic_ns());
	return i + 1;
}

void metric_span_labels(unsigned span, enum metric_id m, const char *const words_[METRIC_LABELS])
{
	size_t series = series_of(m, words_);

	if (!span)
		return;
	atomic_store_explicit(&stores[m].known[series], true, memory_order_relaxed);
	atomic_store(&slots[span - 1].what, WHAT(m, series));
}

void metric_end(unsigned span)
{
	if (!span)
		return;
	atomic_store(&slots[span - 1].since, SLOT_FREE);
	atomic_fetch_and(&used[(span - 1) / WORD_BITS], ~(UINT64_C(1) << ((span - 1) % WORD_BITS)));
}

/*
 * Reads the slot's metric and start time. Returns false if the slot is free, or has just changed.
 */
static bool read_slot(unsigned i, uint32_t *what, int64_t *since)
{
	*since = atomic_load(&slots[i].since);
	*what = atomic_load(&slots[i].what);
	return *since != SLOT_FREE && atomic_load(&slots[i].since) == *since;
}

void metric_spans_read(enum metric_id m, struct metric_spans *ret)
{
	unsigned n = atomic_load(&top);
	int64_t now = monotonic_ns();

	for (unsigned i = 0; i < n; i++) {
		struct metric_spans *s;
		uint32_t what;
		int64_t since;

		if (!read_slot(i, &what, &since) || what >> SERIES_BITS != (uint32_t)m)
			continue;
		s = &ret[what & ((1 << SERIES_BITS) - 1)];
		s->n++;
		if (now - since > s->oldest)
			s->oldest = now - since;
	}
}
