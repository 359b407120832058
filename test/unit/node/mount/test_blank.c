/* SPDX-License-Identifier: Apache-2.0 */
/* The places that the blank check reads, on sparse files of many sizes. */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/mount/blank.h"
#include "node/mount/blank_places.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static int image(uint64_t size, int flags)
{
	char name[] = "/var/tmp/blank-XXXXXX";
	int fd = mkostemp(name, flags);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	return fd;
}

START_TEST(zeros_are_blank_at_every_size)
{
	static const uint64_t sizes[] = { 512,           4 * KIB,        8 * MIB - 512,
		                          16 * MIB,      16 * MIB + 512, 100 * MIB + 1536,
		                          GIB + 4 * KIB, 3000 * GIB };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		int fd AUTO(fd) = image(sizes[i], 0);
		struct err err = ERR_INIT;
		struct blank b = { false, 0, 0 };

		ck_assert_msg(blank_check(fd, "img", sizes[i], "pvc-1", &b, &err) == 0, "%ju: %s",
		              (uintmax_t)sizes[i], err.msg);
		ck_assert_msg(b.is_blank, "%ju", (uintmax_t)sizes[i]);
	}
}
END_TEST

START_TEST(data_is_met_where_it_begins)
{
	static const struct {
		const char *what;
		uint64_t size, at;
		size_t n;
	} rows[] = {
		{ "first byte", 100 * MIB, 0, 1 },
		{ "last byte", 100 * MIB, 100 * MIB - 1, 1 },
		{ "in the last MiB", GIB, GIB - MIB + 77, 1 },
		{ "end of the first 4 MiB", GIB, 4 * MIB - 1, 1 },
		{ "start of the last 4 MiB", GIB, GIB - 4 * MIB, 1 },
		{ "the middle of a small device", 15 * MIB, 7 * MIB + 3, 1 },
		{ "a partition's data at 10 MiB", GIB, 10 * MIB, 64 * KIB },
		{ "10 MiB of a large device", 1000 * GIB, 10 * MIB, 64 * KIB },
		{ "ext4's first backup superblock", 10 * GIB, 128 * MIB, KIB },
		{ "btrfs's second superblock", 10 * GIB, 64 * MIB + 64, 8 },
		{ "a quarter: xfs's second group", 100 * GIB, 25 * GIB, 512 },
		{ "the half", 100 * GIB, 50 * GIB, 512 },
		{ "three quarters", 100 * GIB, 75 * GIB, 512 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = image(rows[i].size, 0);
		char *data AUTO(free) = malloc(rows[i].n);
		struct err err = ERR_INIT;
		struct blank b = { true, 0, 0 };

		memset(data, 0x5a, rows[i].n);
		ck_assert_int_eq(pwrite(fd, data, rows[i].n, (off_t)rows[i].at),
		                 (ssize_t)rows[i].n);
		ck_assert_msg(blank_check(fd, "img", rows[i].size, "pvc-1", &b, &err) == 0,
		              "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(!b.is_blank && b.offset >= rows[i].at &&
		                      b.offset < rows[i].at + rows[i].n && b.byte == 0x5a,
		              "%s: %d at %ju", rows[i].what, b.is_blank, (uintmax_t)b.offset);
	}
}
END_TEST

/*
 * Several readers, one result: that of the first place in the header's order, whichever reader is
 * first.
 */
START_TEST(the_first_place_answers_every_time)
{
	static const uint64_t places[] = { 3 * MIB + 5, GIB - 1, 700 * MIB, 16 * MIB, 64 * MIB };
	int fd AUTO(fd) = image(GIB, 0);

	for (size_t first = ARRAY_LEN(places); first-- > 0;) {
		ck_assert_int_eq(pwrite(fd, "x", 1, (off_t)places[first]), 1);
		/* 700 MiB is between the even samples. */
		for (int i = 0; i < 20; i++) {
			struct err err = ERR_INIT;
			struct blank b = { true, 0, 0 };
			uint64_t want = places[first == 2 ? 3 : first];

			ck_assert_int_eq(blank_check(fd, "img", GIB, "pvc-1", &b, &err), 0);
			ck_assert(!b.is_blank);
			ck_assert_uint_eq(b.offset, want);
		}
	}
}
END_TEST

/* The volume's id selects the random places: with one of two ids, the check meets the data. */
START_TEST(data_at_a_random_place_of_the_volume_is_met)
{
	static struct blank_places places;
	const struct blank_place *at;
	int fd AUTO(fd) = image(100 * GIB, 0);
	struct err err = ERR_INIT;
	struct blank b = { true, 0, 0 };

	blank_places(&places, 100 * GIB, "pvc-1");
	at = &places.v[places.fixed + 400];
	ck_assert_int_eq(pwrite(fd, "x", 1, (off_t)(at->from + at->n - 1)), 1);
	for (int retry = 0; retry < 2; retry++) {
		ck_assert_int_eq(blank_check(fd, "img", 100 * GIB, "pvc-1", &b, &err), 0);
		ck_assert(!b.is_blank);
		ck_assert_uint_eq(b.offset, at->from + at->n - 1);
	}
	ck_assert_int_eq(blank_check(fd, "img", 100 * GIB, "pvc-2", &b, &err), 0);
	ck_assert(b.is_blank);
}
END_TEST

START_TEST(a_read_error_counts_unless_data_is_met_before)
{
	int fd AUTO(fd) = image(10 * MIB, 0);

	for (int i = 0; i < 20; i++) {
		struct err err = ERR_INIT;
		struct blank b = { true, 0, 0 };

		ck_assert_int_eq(blank_check(fd, "img", 12 * MIB, "pvc-1", &b, &err), -1);
		ck_assert_msg(strstr(err.msg, "read img at byte 10485760") != NULL, "%s", err.msg);
	}
	ck_assert_int_eq(pwrite(fd, "x", 1, 10 * MIB - 1), 1);
	for (int i = 0; i < 20; i++) {
		struct err err = ERR_INIT;
		struct blank b = { true, 0, 0 };

		ck_assert_msg(blank_check(fd, "img", 12 * MIB, "pvc-1", &b, &err) == 0, "%s",
		              err.msg);
		ck_assert_uint_eq(b.offset, 10 * MIB - 1);
	}
}
END_TEST

START_TEST(it_works_past_the_page_cache)
{
	int fd AUTO(fd) = image(100 * MIB + 512, O_DIRECT);
	struct err err = ERR_INIT;
	struct blank b = { false, 0, 0 };

	ck_assert_msg(blank_check(fd, "img", 100 * MIB + 512, "pvc-1", &b, &err) == 0, "%s",
	              err.msg);
	ck_assert(b.is_blank);
}
END_TEST

START_TEST(what_cannot_be_read_is_not_blank)
{
	int fd AUTO(fd) = image(10 * MIB, 0);
	int write_only AUTO(fd) = open("/dev/null", O_WRONLY);
	struct err err = ERR_INIT;
	struct blank b = { false, 7, 7 };

	/* The device ends before its size. */
	ck_assert_int_eq(blank_check(fd, "img", 20 * MIB, "pvc-1", &b, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(err.sys, EIO);
	ck_assert_uint_eq(b.offset, 7);
	err_clear(&err);
	ck_assert_int_eq(blank_check(write_only, "img", MIB, "pvc-1", &b, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
}
END_TEST

SUITE("blank", zeros_are_blank_at_every_size, data_is_met_where_it_begins,
      the_first_place_answers_every_time, data_at_a_random_place_of_the_volume_is_met,
      a_read_error_counts_unless_data_is_met_before, it_works_past_the_page_cache,
      what_cannot_be_read_is_not_blank);
