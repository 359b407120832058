/* SPDX-License-Identifier: Apache-2.0 */
/* The places of the blank check, and how much data can hide between them. */
#include "test/lib/suite.h"

#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "node/mount/blank_places.h"
#include "test/lib/doc_table.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define RANDOM 1000

START_TEST(each_of_a_thousand_parts_has_one_random_place)
{
	static const uint64_t sizes[] = {
		16 * MIB + 512, 17 * MIB, 100 * MIB + 1536, GIB, TIB, UINT64_MAX / 512 * 512
	};
	static struct blank_places p;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t blocks = (sizes[i] - 8 * MIB) / BLANK_ALIGN;

		blank_places(&p, sizes[i], "pvc-1");
		ck_assert_uint_eq(p.n, p.fixed + RANDOM);
		for (uint64_t k = 0; k < RANDOM; k++) {
			const struct blank_place *at = &p.v[p.fixed + k];
			uint64_t block = (at->from - 4 * MIB) / BLANK_ALIGN;

			ck_assert_uint_eq(at->n, BLANK_ALIGN);
			ck_assert_uint_eq(at->from % BLANK_ALIGN, 0);
			ck_assert_uint_ge(block, blocks * k / RANDOM);
			ck_assert_uint_lt(block, blocks * (k + 1) / RANDOM);
			ck_assert_uint_le(at->from + at->n, sizes[i] - 4 * MIB);
		}
	}
	blank_places(&p, 16 * MIB, "pvc-1");
	ck_assert_uint_eq(p.n, p.fixed);
}
END_TEST

START_TEST(a_volume_always_has_the_same_places_and_another_one_others)
{
	static struct blank_places first, again, other;
	unsigned same = 0;

	blank_places(&first, 100 * GIB, "pvc-1");
	blank_places(&again, 100 * GIB, "pvc-1");
	blank_places(&other, 100 * GIB, "pvc-2");
	ck_assert_uint_eq(first.n, again.n);
	for (size_t i = 0; i < first.n; i++)
		ck_assert_uint_eq(first.v[i].from, again.v[i].from);
	for (size_t i = 0; i < first.fixed; i++)
		ck_assert_uint_eq(first.v[i].from, other.v[i].from);
	for (size_t i = first.fixed; i < first.n; i++)
		same += first.v[i].from == other.v[i].from;
	ck_assert_uint_lt(same, 10);
}
END_TEST

/* ---- the size of data that can hide ---- */

static int by_place(const void *a, const void *b)
{
	const struct blank_place *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/*
 * The fraction of the positions of an extent, from 0 to size - extent, at which it touches none of
 * the first n places.
 */
static double missed(const struct blank_places *p, size_t n, uint64_t size, uint64_t extent)
{
	static struct blank_place sorted[BLANK_PLACES_MAX];
	uint64_t end = 0;
	double positions = 0;

	memcpy(sorted, p->v, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_place);
	for (size_t i = 0; i < n; i++) {
		if (sorted[i].from >= end + extent)
			positions += (double)(sorted[i].from - end - extent + 1);
		if (sorted[i].from + sorted[i].n > end)
			end = sorted[i].from + sorted[i].n;
	}
	return positions / (double)(size - extent + 1);
}

#define VOLUMES 50 /* the mean over them is the document's number */

static double missed_with_random(uint64_t size, uint64_t extent)
{
	static struct blank_places p;
	double sum = 0;

	for (unsigned i = 0; i < VOLUMES; i++) {
		char seed[16];

		snprintf(seed, sizeof(seed), "pvc-%u", i);
		blank_places(&p, size, seed);
		sum += missed(&p, p.n, size, extent);
	}
	return sum / VOLUMES;
}

static void add_cell(struct str *table, double probability)
{
	if (probability == 0)
		str_add(table, " 0 |");
	else if (probability < 0.00005)
		str_add(table, " < 0.0001 |");
	else if (probability >= 0.995)
		str_add(table, " > 0.99 |");
	else
		str_addf(table, " %.2g |", probability);
}

START_TEST(the_document_says_what_can_hide)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} extents[] = {
		{ "4 KiB", 4 * KIB },     { "1 MiB", MIB },         { "16 MiB", 16 * MIB },
		{ "128 MiB", 128 * MIB }, { "512 MiB", 512 * MIB }, { "1 GiB", GIB },
		{ "2 GiB", 2 * GIB },     { "10 GiB", 10 * GIB },
	};
	static const uint64_t sizes[] = { 10 * GIB, 100 * GIB, TIB, 10 * TIB };
	struct str table AUTO(str_clear) = STR_INIT(4000);

	str_add(&table, "| extent | 10 GiB | 100 GiB | 1 TiB | 10 TiB |\n"
	                "| --- | --- | --- | --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(extents); i++) {
		str_addf(&table, "| %s |", extents[i].name);
		for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
			add_cell(&table, missed_with_random(sizes[k], extents[i].bytes));
		}
		str_add(&table, "\n");
	}
	doc_table_check("docs/reference/formatting.md", "hide", table.ptr);
}
END_TEST

/*
 * The probability with only the random places, in parts of p bytes: (1 - e) + e^3/6, (2 - e)^3/6,
 * 0.
 */
START_TEST(what_can_hide_is_what_the_formula_says)
{
	static const double parts[] = { 0.1, 0.5, 0.9, 1, 1.5, 2, 5 };
	static struct blank_places p, random;
	uint64_t size = 10 * TIB, part = (size - 8 * MIB) / RANDOM;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		double e = parts[i], sum = 0;
		double want = e <= 1 ? 1 - e + pow(e, 3) / 6 : e < 2 ? pow(2 - e, 3) / 6 : 0;

		for (unsigned k = 0; k < VOLUMES; k++) {
			char seed[16];

			snprintf(seed, sizeof(seed), "pvc-%u", k);
			blank_places(&p, size, seed);
			random.n = RANDOM;
			memcpy(random.v, p.v + p.fixed, RANDOM * sizeof(*p.v));
			sum += missed(&random, RANDOM, size, (uint64_t)(e * (double)part));
		}
		ck_assert_msg(fabs(sum / VOLUMES - want) < 0.004, "%g parts: %g, not %g", e,
		              sum / VOLUMES, want);
	}
}
END_TEST

SUITE("blank_places", each_of_a_thousand_parts_has_one_random_place,
      a_volume_always_has_the_same_places_and_another_one_others, the_document_says_what_can_hide,
      what_can_hide_is_what_the_formula_says);
